package aisdk

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/uistream"
)

// begin tells a message that is there, or goes on with it.
func (w *window) begin(ctx context.Context, message model.MessageID) error {
	if err := w.send(uistream.Chunk{Type: uistream.Start, MessageID: string(message)}); err != nil {
		return err
	}
	return w.run(ctx, message)
}

// answer waits for the message that answers a turn, and tells it. Only whoever
// begins it says which one it is, so nothing but comments comes before.
func (w *window) answer(ctx context.Context, asked model.TurnID) error {
	if err := w.out.comment(); err != nil { // the response has begun
		return err
	}
	message, err := w.await(ctx, asked)
	if err != nil {
		return w.ended(err)
	}
	return w.begin(ctx, message)
}

// again waits for the next answer after one that died while it streamed. Where
// that is another message the client resumes.
func (w *window) again(ctx context.Context, message model.MessageID) error {
	if w.asked == "" {
		return &overError{uistream.Chunk{Type: uistream.Error, ErrorText: "The answer broke off."}}
	}
	next, err := w.await(ctx, w.asked)
	if err == nil && next != message {
		return errReset
	}
	return err
}

// await waits until a turn's continuation is accepted, and gives the message
// of the turn that accepted it.
func (w *window) await(ctx context.Context, asked model.TurnID) (model.MessageID, error) {
	held := time.NewTimer(w.Hold)
	defer held.Stop()
	for {
		t, err := w.Rows.Turn(ctx, w.topic.Tenant, asked)
		if err != nil {
			return "", err
		}
		if t.Ended != "" {
			return "", &overError{endOf(t)}
		}
		if failed(t) {
			return "", &overError{uistream.Chunk{Type: uistream.Error, ErrorText: notAnswered}}
		}
		if c := t.Continuation; c != nil && c.AcceptedBy != "" {
			next, err := w.Rows.Turn(ctx, w.topic.Tenant, c.AcceptedBy)
			if err != nil {
				return "", err
			}
			return next.Message, nil
		}
		switch err := w.idle(ctx, held.C, w.watch.Changed()); {
		case errors.Is(err, errHeld):
			return "", &overError{uistream.Chunk{Type: uistream.Error, ErrorText: waitsFor(model.TurnContinuing)}}
		case err != nil:
			return "", err
		}
		w.watch.Again()
	}
}

// failed tells whether nobody will go on from a turn before somebody asks for
// it anew.
func failed(t *model.Turn) bool {
	return t.Continuation != nil && t.Continuation.State == model.ContinuationFailed
}

const notAnswered = "The answer could not be made; it can be asked for again."

// overError is that a response is over, and with which chunk.
type overError struct{ end uistream.Chunk }

func (e *overError) Error() string { return "the response is over" }

// ended ends a response that is over; another error is its caller's.
func (w *window) ended(err error) error {
	if over, is := errors.AsType[*overError](err); is {
		return w.finish(over.end)
	}
	return err
}

// endOf is how a turn that was ended ends a response.
func endOf(t *model.Turn) uistream.Chunk {
	if t.Ended == model.TurnError {
		return uistream.Chunk{Type: uistream.Error, ErrorText: t.EndReason}
	}
	return uistream.Chunk{Type: uistream.Abort, Reason: t.EndReason}
}
