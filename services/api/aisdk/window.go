package aisdk

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/watch"
)

// window is one open stream of a message to one client: what the client was
// told, and how to tell it the rest.
type window struct {
	*Windows
	out     *frames
	version uistream.Version
	topic   store.TopicKey
	watch   *watch.Watch
	may     func(context.Context) error // whether the client still may read

	told   uistream.Tracker
	steps  int          // of the message, that the client has
	asked  model.TurnID // whose continuation began the message, or ""
	open   bool         // a step was begun in this response and is not finished
	reason string
}

// errReset ends a response whose client has chunks that do not count any
// more and cannot be told so; it resumes the stream and is told all anew.
var errReset = errors.New("the stream was replaced")

// run tells the message until it is over, or waits for people. A client on
// whose response nothing streams for the hold is told to come back instead of
// waiting on.
func (w *window) run(ctx context.Context, message model.MessageID) error {
	held := time.NewTimer(w.Hold)
	defer held.Stop()
	for {
		h, err := w.Rows.Messages(ctx, w.topic.Tenant, w.topic.Topic, store.Range{ID: message})
		if err != nil {
			return err
		}
		w.watch.Saw(h.Version)
		if len(h.Messages) == 0 { // it was dropped
			return w.finish(uistream.Chunk{Type: uistream.Abort, Reason: string(model.OutcomeSuperseded)})
		}
		if len(h.Messages[0].Turns) == 0 { // its only turn died while it streamed
			if err := w.again(ctx, message); err != nil {
				return w.ended(err)
			}
			continue
		}
		turns := h.Messages[0].Turns
		w.asked = turns[0].Continues
		live, err := w.tell(turns)
		if err != nil {
			return err
		}
		if live != nil {
			if err := w.follow(ctx, live); err != nil {
				return err
			}
			held.Reset(w.Hold)
			continue
		}
		if end := w.ending(&turns[len(turns)-1]); end != nil {
			return w.finish(*end)
		}
		switch err := w.idle(ctx, held.C, w.watch.Changed()); {
		case errors.Is(err, errHeld):
			return w.finish(uistream.Chunk{Type: uistream.Error, ErrorText: waitsFor(turns[len(turns)-1].State())})
		case err != nil:
			return err
		}
		w.watch.Again()
	}
}

// tell brings the client to what the rows say, and gives the turn that
// streams, of which the rows do not know all yet.
func (w *window) tell(turns []store.MessageTurn) (live *store.MessageTurn, err error) {
	for i := range turns {
		t := &turns[i]
		if i >= w.steps && t.Streaming && t.Live != nil {
			return t, nil
		}
		var chunks []uistream.Chunk
		parts := raws(uimessage.SignedParts(*t, Signs(w.Signer, w.version)))
		if i < w.steps {
			if chunks, err = w.update(parts); err == nil {
				err = w.send(chunks...)
			}
		} else if chunks, err = uistream.Replay(parts, w.version); err == nil {
			w.steps++
			err = w.send(append(chunks, about(t)...)...)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, w.out.flush()
}

// about tells what a turn said of its message.
func about(t *store.MessageTurn) (out []uistream.Chunk) {
	for _, said := range t.Metadata {
		out = append(out, uistream.Chunk{Type: uistream.MessageMetadata, MessageMetadata: strictjson.Raw(said)})
	}
	return out
}

// update tells what became of calls that the client has: denials first, then
// the other outcomes, as the SDK's own server does.
func (w *window) update(parts []strictjson.Raw) (out []uistream.Chunk, err error) {
	var later []uistream.Chunk
	for _, p := range parts {
		chunks, err := w.told.Update(p, w.version)
		if err == nil && w.told.Lacks(p) { // a client whose stream was cut off within the step
			chunks, err = uistream.Replay([]strictjson.Raw{p}, w.version)
		}
		if err != nil {
			return nil, err
		}
		if n := len(chunks); n > 0 && chunks[n-1].Type == uistream.ToolOutputDenied {
			out = append(out, chunks...)
		} else {
			later = append(later, chunks...)
		}
	}
	return append(out, later...), nil
}

func raws(parts []json.RawMessage) []strictjson.Raw {
	out := make([]strictjson.Raw, len(parts))
	for i, p := range parts {
		out[i] = strictjson.Raw(p)
	}
	return out
}

// send writes chunks, with the ends of steps where they belong.
func (w *window) send(chunks ...uistream.Chunk) error {
	for _, c := range chunks {
		if !w.version.Knows(c) {
			continue
		}
		if c.Type == uistream.StartStep {
			if err := w.finishStep(); err != nil {
				return err
			}
			w.open = true
		}
		w.told.Tell(c)
		line, err := c.Encode()
		if err != nil {
			return err
		}
		if err := w.out.add(line); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) finishStep() error {
	if !w.open {
		return nil
	}
	w.open = false
	return w.send(uistream.Chunk{Type: uistream.FinishStep})
}

// ending says how a response ends whose message has come to this turn; nil
// while there is more to come.
func (w *window) ending(t *store.MessageTurn) *uistream.Chunk {
	reason := w.reason
	switch t.State() {
	case model.TurnAwaitingApproval:
		if t.OpenCalls > t.OpenApprovals && working(t) {
			return nil // a client that has a call without its outcome never posts its answers
		}
		reason = "tool-calls"
	case model.TurnNeedsAttention:
		reason = "tool-calls"
	case model.TurnDone:
		if reason == "" || reason == "tool-calls" {
			reason = "stop"
		}
	case model.TurnAborted, model.TurnError:
		end := endOf(t.Turn)
		return &end
	case model.TurnContinuing:
		if failed(t.Turn) {
			return &uistream.Chunk{Type: uistream.Error, ErrorText: notAnswered}
		}
		return nil
	default:
		return nil
	}
	if end := (uistream.Chunk{Type: uistream.Finish, FinishReason: reason}); w.version.Knows(end) {
		return &end
	}
	return &uistream.Chunk{Type: uistream.Finish, FinishReason: "other"}
}

// working tells whether a call of the turn runs, or will by itself.
func working(t *store.MessageTurn) bool {
	for _, c := range t.Calls {
		if c.Run == model.RunQueued || c.Run == model.RunStarted {
			return true
		}
	}
	return false
}

// finish ends the response. A client that would post by itself for ever is
// told of an error instead of an end.
func (w *window) finish(end uistream.Chunk) error {
	if err := w.finishStep(); err != nil {
		return err
	}
	if w.told.Awaits() && end.Type != uistream.Error {
		end = uistream.Chunk{Type: uistream.Error, ErrorText: "What was answered is not carried out yet."}
	}
	if err := w.send(end); err != nil {
		return err
	}
	w.out.end()
	return w.out.flush()
}

// waitsFor tells a client that waited long enough what it waited for.
func waitsFor(state model.TurnState) string {
	switch state {
	case model.TurnExecuting:
		return "A tool is still running; reload to see its result."
	case model.TurnContinuing:
		return "The answer was not begun yet; reload to see it."
	}
	return "The conversation waits; reload to see how it went on."
}

// errHeld is that a response was held open for as long as it may be.
var errHeld = errors.New("held long enough")

// idle waits for one of the changes, and shows the client meanwhile that its
// stream lives.
func (w *window) idle(ctx context.Context, deadline <-chan time.Time, changes ...<-chan struct{}) error {
	var first, second <-chan struct{}
	first = changes[0]
	if len(changes) > 1 {
		second = changes[1]
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-daemon.Draining(ctx):
			return errReset
		case <-w.out.silence.C:
			if err := w.out.comment(); err != nil {
				return err
			}
			if err := w.may(ctx); err != nil {
				return err
			}
			continue
		case <-deadline:
			return errHeld
		case <-first:
		case <-second:
		}
		return w.may(ctx)
	}
}
