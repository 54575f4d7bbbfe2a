package uistream

import (
	"bytes"

	"github.com/countersign/countersign/pkg/strictjson"
)

// Update tells a client that has a tool part as before what it is now. A
// client's own answer may differ from what was committed: where its version
// has chunks for that, the committed verdict replaces it; V6 has none, and is
// told of a denial that it believes to be an approval as an error, which is
// the only end that its validation accepts.
func Update(before, now strictjson.Raw, v Version) ([]Chunk, error) {
	was, err := readPart(before)
	if err != nil {
		return nil, err
	}
	is, err := readPart(now)
	if err != nil {
		return nil, err
	}
	return update(&was, &is, v), nil
}

func update(was, is *told, v Version) (out []Chunk) {
	if edited := !bytes.Equal(was.Input, is.Input) && is.Input != nil && was.State != inputStreaming; edited {
		out = append(out, is.call())
	}
	told := v < V7 && is.State == outputDenied && was.State == outputError // which is how it is told of some denials
	if told || is.State == was.State && (is.over() || equal(is.verdict(), was.verdict())) {
		return out
	}
	out = append(out, is.answered(was, v)...)
	switch {
	case is.State == outputDenied && v < V7 && is.contradicts(was):
		out = append(out, Chunk{Type: ToolOutputError, ToolCallID: is.ToolCallID, ErrorText: is.denial()})
	case is.over():
		out = append(out, is.output())
	}
	return known(out, v)
}

// answered are the chunks that bring a client's approval object to what was
// committed.
func (t *told) answered(was *told, v Version) []Chunk {
	switch {
	case t.Approval == nil:
		return nil
	case t.State == approvalRequested:
		return []Chunk{t.request()}
	case was.Approval == nil && (v >= V7 || t.State == outputDenied):
		return []Chunk{t.request(), t.response()}
	case was.Approval != nil && !equal(t.verdict(), was.verdict()):
		return []Chunk{t.response()}
	}
	return nil
}

// over tells whether the call has come to its end.
func (t *told) over() bool {
	return t.State == outputDenied || t.State == outputAvailable || t.State == outputError
}

// contradicts tells whether the client believes that the call was approved.
func (t *told) contradicts(was *told) bool {
	return was.verdict() != nil && *was.verdict() && !equal(t.verdict(), was.verdict())
}

func (t *told) denial() string {
	if reason := t.reason(); reason != "" {
		return reason
	}
	return "The call was denied."
}

func equal(a, b *bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
