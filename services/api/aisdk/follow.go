package aisdk

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uistream"
)

// lag is how long the last chunks of a turn may take that its rows already
// call over; whatever came by then, the rest is told from the rows.
const lag = 2 * time.Second

// follow tells a live turn chunk by chunk, until its stream is over. What its
// calls came to meanwhile is told from the rows afterwards.
func (w *window) follow(ctx context.Context, t *store.MessageTurn) error {
	fd, leave := w.feeds.follow(feedKey{w.topic.Tenant, t.ID, t.Live.Fence})
	defer leave()
	f := following{window: w, feed: fd, turn: t, sign: liveSigner{Signer: w.Signer, version: w.version}}
	for {
		lines, state, more := fd.after(f.shown)
		if state == replaced || state == gapped {
			return f.startOver(ctx)
		}
		if err := f.tell(lines); err != nil {
			return err
		}
		if state == over {
			w.steps++
			return nil
		}
		if err := w.idle(ctx, f.late, more, f.changes()); errors.Is(err, errHeld) {
			return f.startOver(ctx)
		} else if err != nil {
			return err
		}
		if err := f.look(ctx); err != nil {
			return err
		}
	}
}

// following is a window on a feed.
type following struct {
	*window
	feed  *feed
	turn  *store.MessageTurn
	shown int
	sign  liveSigner
	late  <-chan time.Time // set when the rows say that the turn is over
}

func (f *following) tell(lines []line) error {
	for _, l := range lines {
		f.shown++
		if l.chunk.Type == uistream.Finish {
			f.reason = l.chunk.FinishReason
			continue
		}
		if err := f.send(f.sign.next(l.chunk)); err != nil {
			return err
		}
	}
	return f.out.flush()
}

// changes is what says that the turn's rows may have changed; nil once they
// say that it is over.
func (f *following) changes() <-chan struct{} {
	if f.late != nil {
		return nil
	}
	return f.watch.Changed()
}

// look reads whether the turn still streams. One that does not and whose
// chunks do not end died, or its node did.
func (f *following) look(ctx context.Context) error {
	if f.late != nil || !f.watch.Again() {
		return nil
	}
	live, err := f.streams(ctx)
	if err == nil && !live {
		f.late = time.After(lag)
	}
	return err
}

// startOver goes on after a stream of which the client has a part that does
// not count, or misses the rest. A client of V7 is told to forget the step;
// one of V6 cannot be told, and resumes.
func (f *following) startOver(ctx context.Context) error {
	if f.shown > 0 {
		if f.version < uistream.V7 {
			return errReset
		}
		if err := f.send(uistream.Chunk{Type: uistream.ResetStep}); err != nil {
			return err
		}
		f.open = false
	}
	return f.untilMore(ctx)
}

// untilMore waits until the rows know more than this stream: all of the turn,
// or another stream of it. A message that only claims to be of another stream
// is a reason to wait, not to ask again and again.
func (f *following) untilMore(ctx context.Context) error {
	for {
		live, err := f.streams(ctx)
		if err != nil || !live {
			return err
		}
		if err := f.idle(ctx, nil, f.watch.Changed()); err != nil {
			return err
		}
		f.watch.Again()
	}
}

// streams reads whether the turn still streams, and by this very stream.
func (f *following) streams(ctx context.Context) (bool, error) {
	now, err := f.Rows.Turn(ctx, f.topic.Tenant, f.turn.ID)
	if err != nil {
		return false, err
	}
	return now.Streaming && now.Live != nil && now.Live.Fence == f.feed.key.fence, nil
}
