package users

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
)

// goOn lets two processes of the backend continue a turn, until one of them
// did or the turn is ended. It gives the next turn, or nil.
func (k *talk) goOn(ctx context.Context, turn *client.Turn) *client.Turn {
	defer k.mail.forget(turn.ID)
	for ctx.Err() == nil {
		k.awaitDelivery(ctx, turn.ID)
		if next := k.race(ctx, turn.ID); next != nil {
			return next
		}
		now, ok := k.look(ctx, turn.ID, 0)
		if ok && (ended(now) || k.goneOn(ctx, now)) {
			return nil
		}
		pause(ctx, 300*time.Millisecond) // a live turn that died gives it back
	}
	return nil
}

func ended(turn client.Turn) bool { return turn.State == "aborted" || turn.State == "error" }

// goneOn tells whether the turn that took the continuation was ended by
// somebody, by cancel or by what superseded it: nobody goes on from there.
func (k *talk) goneOn(ctx context.Context, turn client.Turn) bool {
	if turn.Continuation == nil || turn.Continuation.AcceptedBy == "" {
		return false
	}
	next, ok := k.look(ctx, turn.Continuation.AcceptedBy, 0)
	return ok && ended(next)
}

// awaitDelivery waits for the continuation's delivery, but not for ever: a
// backend may also look by itself.
func (k *talk) awaitDelivery(ctx context.Context, turn string) {
	delivered := k.mail.expect(turn)
	for range 8 {
		select {
		case <-delivered:
			return
		case <-ctx.Done():
			return
		case <-time.After(400 * time.Millisecond):
		}
		if now, ok := k.look(ctx, turn, 0); ok && (now.State != "continuing" || k.polls(ctx, turn)) {
			return
		}
	}
}

// polls tells whether a continuation is listed as ready: what a sink of type
// none is for.
func (k *talk) polls(ctx context.Context, turn string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	page, err := k.client(k.t, k.rand.IntN(2), "").Continuations(ctx, client.ContinuationFilter{State: "ready", Topic: k.topic})
	if err != nil {
		return false
	}
	for _, c := range page.Items {
		if c.Turn == turn && (c.Sink == nil || c.Sink.Type == "none") {
			return true
		}
	}
	return false
}

// race lets both processes go on from a turn at once. One of them gets it.
func (k *talk) race(ctx context.Context, turn string) *client.Turn {
	var next [2]*client.Turn
	var both sync.WaitGroup
	for i, process := range []string{"backend-a", "backend-b"} {
		r, live, calls := fork(k.rand), k.rand.IntN(3) == 0, 0
		if k.rand.IntN(2) == 0 {
			calls = 1 + k.rand.IntN(3)
		}
		id, calls := k.name(calls)
		req := client.TurnRequest{Continues: turn, Parts: parts(r, id, calls), RequestedBy: "user:alice", Sink: k.sink()}
		if k.rand.IntN(2) == 0 {
			req.MessageID = id
		}
		both.Go(func() {
			if live {
				next[i] = k.live(ctx, r, process, req)
			} else {
				next[i] = k.register(ctx, r, process, req)
			}
		})
	}
	both.Wait()
	if next[0] != nil {
		return next[0]
	}
	return next[1]
}

// live opens the next turn, thinks, and ends it; sometimes it thinks for
// longer than its lease lasts. An opening that was not answered is left
// alone: its lease gives the continuation back.
func (k *talk) live(ctx context.Context, r *rand.Rand, process string, req client.TurnRequest) *client.Turn {
	var open client.OpenAnswer
	op := history.Op{Process: process, Kind: history.Open, Node: r.IntN(2), Topic: k.topic, Continues: req.Continues, Message: req.MessageID}
	done, _ := k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) (err error) {
		open, err = c.OpenTurn(ctx, k.topic, client.OpenRequest{
			MessageID: req.MessageID, Continues: req.Continues, Lease: "2s", RequestedBy: req.RequestedBy, Sink: req.Sink,
		})
		if err == nil {
			op.Turn, op.State, op.Fence = open.Turn.ID, open.Turn.State, open.Fence
			k.remember(k.t, &open.Turn)
		}
		return err
	})
	if done.Result != history.OK {
		return nil
	}
	think := time.Duration(r.IntN(300)) * time.Millisecond
	if r.IntN(5) == 0 {
		think = 3500 * time.Millisecond
	}
	pause(ctx, think)
	return k.finish(ctx, r, process, open, req)
}

func (k *talk) finish(ctx context.Context, r *rand.Rand, process string, open client.OpenAnswer, req client.TurnRequest) *client.Turn {
	var turn *client.Turn
	op := history.Op{Process: process, Kind: history.Finish, Topic: k.topic, Turn: open.Turn.ID, Fence: open.Fence}
	_, _ = k.insist(ctx, r, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
		answer, err := c.FinishTurn(ctx, k.topic, open.Turn.ID, client.FinishRequest{Fence: open.Fence, Token: open.Token, Parts: req.Parts})
		if err == nil {
			op.State, op.Version = answer.Turn.State, answer.Topic.Version
			turn = &answer.Turn
			k.remember(k.t, turn)
		}
		return err
	})
	return turn
}
