package model

import (
	"context"
	"strconv"
	"strings"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/uistream"
)

// writer takes chunks into the turn; *intake.Writer does.
type writer interface {
	Take(ctx context.Context, line []byte) (done bool, err error)
}

// translation turns a provider's deltas into chunks of the UI message stream.
// Within a turn text comes before calls; the protocol says nothing about their
// order, so a text that comes late is kept as a reasoning.
type translation struct {
	writer
	request request
	calls   map[int64]*call
	now     *call  // whose arguments are coming
	open    string // the text or reasoning that is: its chunks' prefix, or ""
	blocks  int    // texts and reasonings so far
	begun   int    // calls so far

	finish  string
	model   string
	in, out int64
}

func newTranslation(r request, w writer) *translation {
	return &translation{writer: w, request: r, calls: map[int64]*call{}}
}

// take takes a delta; done tells that the turn is over.
func (t *translation) take(ctx context.Context, d delta) (done bool, err error) {
	if d.model != "" {
		t.model = d.model
	}
	t.in, t.out = max(t.in, d.in), max(t.out, d.out)
	if err := t.say(ctx, "reasoning", d.reasoning); err != nil {
		return false, err
	}
	kind := "text"
	if t.begun > 0 {
		kind = "reasoning"
	}
	if err := t.say(ctx, kind, d.text); err != nil {
		return false, err
	}
	for _, c := range d.calls {
		if t.begun == approval.MaxCalls && t.begins(c) {
			// What is more than a step can hold is not taken: the model sees that
			// it has no such calls, and may make them in its next one.
			return t.over(ctx, "tool-calls")
		}
		if err := t.grow(ctx, c); err != nil {
			return false, err
		}
	}
	if d.finish != "" {
		return t.over(ctx, d.finish)
	}
	return false, nil
}

// end is that the provider's stream ended. One that did not say why broke off.
func (t *translation) end(context.Context) error {
	return &Failure{Text: "its answer broke off", Kind: "cut"}
}

// over ends the turn.
func (t *translation) over(ctx context.Context, why string) (done bool, err error) {
	t.finish = why
	if err := t.close(ctx); err != nil {
		return false, err
	}
	if err := t.complete(ctx); err != nil {
		return false, err
	}
	if err := t.send(ctx, uistream.Chunk{Type: uistream.FinishStep}); err != nil {
		return false, err
	}
	if err := failpoint.Hit(ctx, failpoint.AskAfter); err != nil {
		return false, err
	}
	return true, t.send(ctx, uistream.Chunk{Type: uistream.Finish, FinishReason: reason(why)})
}

// reason gives a provider's word for an end the SDK's.
func reason(why string) string {
	switch why {
	case "stop", "length":
		return why
	case "tool_calls", "function_call", "tool-calls":
		return "tool-calls"
	case "content_filter":
		return "content-filter"
	}
	return "other"
}

// say shows a piece of a text or a reasoning.
func (t *translation) say(ctx context.Context, kind, text string) error {
	if text == "" {
		return nil
	}
	if t.open != kind {
		if err := t.close(ctx); err != nil {
			return err
		}
		t.open = kind
		t.blocks++
		if err := t.send(ctx, uistream.Chunk{Type: kind + "-start", ID: t.block()}); err != nil {
			return err
		}
	}
	return t.send(ctx, uistream.Chunk{Type: kind + "-delta", ID: t.block(), Delta: strings.ToValidUTF8(text, "\uFFFD")})
}

func (t *translation) block() string { return strconv.Itoa(t.blocks) }

// close ends the text or reasoning that is open.
func (t *translation) close(ctx context.Context) error {
	if t.open == "" {
		return nil
	}
	kind := t.open
	t.open = ""
	return t.send(ctx, uistream.Chunk{Type: kind + "-end", ID: t.block()})
}

func (t *translation) send(ctx context.Context, c uistream.Chunk) error {
	line, err := c.Encode()
	if err != nil {
		return err
	}
	_, err = t.Take(ctx, line)
	return err
}
