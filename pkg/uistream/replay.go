package uistream

import (
	"strconv"

	"github.com/countersign/countersign/pkg/strictjson"
)

// Replay tells the parts of one turn, from its step-start on, to a client
// that has none of them: each part in order, each call with what was asked
// about it, then denials, then the other outcomes, as the SDK's own server
// orders them. It does not end the step.
func Replay(parts []strictjson.Raw, v Version) ([]Chunk, error) {
	var out, denied, over []Chunk
	for i, raw := range parts {
		t, err := readPart(raw)
		if err != nil {
			return nil, err
		}
		if !t.isTool() {
			out = append(out, t.plain(i)...)
			continue
		}
		out = append(out, t.call())
		out = append(out, t.asked(v)...)
		switch t.State {
		case outputDenied:
			denied = append(denied, t.output())
		case outputAvailable, outputError:
			over = append(over, t.output())
		}
	}
	return known(append(append(out, denied...), over...), v), nil
}

// asked are the chunks about a call's approval. A V6 client keeps a card open
// until it is answered or denied there, so it is told of open and denied ones
// alone.
func (t *told) asked(v Version) []Chunk {
	switch {
	case t.Approval == nil:
		return nil
	case t.State == approvalRequested:
		return []Chunk{t.request()}
	case v >= V7:
		return []Chunk{t.request(), t.response()}
	case t.State == outputDenied:
		return []Chunk{t.request()}
	}
	return nil
}

// plain tells a part that is no tool's. i makes the ids of texts.
func (t *told) plain(i int) []Chunk {
	switch t.Type {
	case "step-start":
		return []Chunk{{Type: StartStep}}
	case "text", "reasoning":
		id := t.ID
		if id == "" {
			id = strconv.Itoa(i)
		}
		out := []Chunk{{Type: t.Type + "-start", ID: id, ProviderMetadata: t.ProviderMetadata}}
		if t.Text != "" {
			out = append(out, Chunk{Type: t.Type + "-delta", ID: id, Delta: t.Text})
		}
		return append(out, Chunk{Type: t.Type + "-end", ID: id})
	}
	return []Chunk{{Type: t.Type, ID: t.ID, Data: harmless(t.Data), SourceID: t.SourceID, URL: t.URL, MediaType: t.MediaType, Title: t.Title,
		Filename: t.Filename, Kind: t.Kind, ProviderMetadata: t.ProviderMetadata}}
}

// known leaves out what a client of the version fails on.
func known(chunks []Chunk, v Version) []Chunk {
	out := chunks[:0]
	for _, c := range chunks {
		if v.Knows(c) {
			out = append(out, c)
		}
	}
	return out
}
