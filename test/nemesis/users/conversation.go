package users

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
)

// talk is one conversation: a topic, its chat backend, and the people that it
// asks. Whoever does something beside has a copy with a chance of its own.
type talk struct {
	*World
	t     tenant
	n     uint64
	topic string
	turns *atomic.Int64 // that were named
	rand  *rand.Rand

	beside *sync.WaitGroup // people, callers, and who interferes
}

// maxTurns bounds a conversation.
const maxTurns = 6

// converse holds a whole conversation, from its first turn to a turn without
// calls, or to where somebody ended it.
func (w *World) converse(ctx context.Context, n uint64) {
	r := rand.New(rand.NewPCG(w.o.Seed, n))
	// Both tenants have topics of the same names.
	k := &talk{World: w, t: w.tenants[n%2], n: n, topic: fmt.Sprintf("topic-%d", n/2), rand: r,
		turns: &atomic.Int64{}, beside: &sync.WaitGroup{}}
	if r.IntN(3) == 0 {
		w.watch(ctx, k.t, k.topic, fork(r))
	}
	defer k.beside.Wait()
	expires := r.IntN(12) == 0
	k.follow(ctx, k.begin(ctx, expires), expires)
}

// with gives a copy for somebody beside.
func (k *talk) with(r *rand.Rand) *talk {
	own := *k
	own.rand = r
	return &own
}

// follow sees a turn and those that continue it to their end.
func (k *talk) follow(ctx context.Context, turn *client.Turn, expires bool) {
	for turn != nil && ctx.Err() == nil && len(turn.Calls) > 0 {
		fate := k.drawFate(expires)
		expires = false
		k.attend(ctx, turn, fate)
		k.interfere(ctx, turn, fate)
		if !k.settle(ctx, turn) {
			return
		}
		turn = k.goOn(ctx, turn)
	}
}

// fate is what happens to a turn besides being answered.
type fate int

const (
	answered fate = iota
	cancelled
	superseded
	ignored // its cards expire
)

func (k *talk) drawFate(expires bool) fate {
	switch n := k.rand.IntN(100); {
	case n < 7:
		return cancelled
	case n < 14:
		return superseded
	case expires && n < 60:
		return ignored
	}
	return answered
}

// name gives the next turn's, and how many calls it may have.
func (k *talk) name(calls int) (string, int) {
	n := k.turns.Add(1)
	if n > maxTurns {
		calls = 0
	}
	return fmt.Sprintf("m%d-%d", k.n, n), calls
}

// begin registers a turn that continues nothing. Sometimes two processes of
// the backend register it at once.
func (k *talk) begin(ctx context.Context, expires bool) *client.Turn {
	id, calls := k.name(1 + k.rand.IntN(3))
	req := client.TurnRequest{MessageID: id, Parts: parts(k.rand, id, calls), RequestedBy: "user:alice", Sink: k.sink()}
	if k.rand.IntN(3) == 0 {
		req.Execution = "eager"
	}
	if expires {
		req.ExpiresIn = "3s"
	}
	if k.rand.IntN(5) == 0 {
		r := fork(k.rand)
		k.beside.Go(func() { k.register(ctx, r, "backend-b", req) })
	}
	return k.register(ctx, fork(k.rand), "backend-a", req)
}

func (k *talk) sink() *client.Sink {
	switch k.rand.IntN(3) {
	case 0:
		return &client.Sink{Type: "webhook", URL: k.mail.url, AcceptWithin: "3s"}
	case 1:
		return &client.Sink{Type: "jetstream", Name: sinkName, AcceptWithin: "3s"}
	}
	return &client.Sink{Type: "none"}
}

// register registers a turn until it is answered; nil when it was refused, or
// never answered.
func (k *talk) register(ctx context.Context, r *rand.Rand, process string, req client.TurnRequest) *client.Turn {
	var turn *client.Turn
	op := history.Op{Process: process, Kind: history.Register, Topic: k.topic, Message: req.MessageID, Continues: req.Continues}
	_, _ = k.insist(ctx, r, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
		answer, err := c.RegisterTurn(ctx, k.topic, req)
		if err == nil {
			op.Turn, op.State, op.Version = answer.Turn.ID, answer.Turn.State, answer.Topic.Version
			turn = &answer.Turn
			k.remember(k.t, turn)
		}
		return err
	})
	return turn
}

// interfere does to a turn what its fate is, after a moment: somebody cancels
// it, or writes something newer, whose turn is then followed.
func (k *talk) interfere(ctx context.Context, turn *client.Turn, fate fate) {
	if fate != cancelled && fate != superseded {
		return
	}
	after := time.Duration(k.rand.IntN(800)) * time.Millisecond
	own := k.with(fork(k.rand))
	k.beside.Go(func() {
		pause(ctx, after)
		if fate == cancelled {
			own.cancel(ctx, turn.ID)
			return
		}
		id, calls := own.name(own.rand.IntN(3))
		req := client.TurnRequest{MessageID: id, Parts: parts(own.rand, id, calls), RequestedBy: "user:alice",
			WhileOpen: "supersede", Sink: own.sink()}
		own.follow(ctx, own.register(ctx, own.rand, "user", req), false)
	})
}

// cancel ends a turn, or all open ones.
func (k *talk) cancel(ctx context.Context, turn string) {
	if k.rand.IntN(4) == 0 {
		turn = ""
	}
	op := history.Op{Process: "user", Kind: history.Cancel, Topic: k.topic, Turn: turn}
	_, _ = k.insist(ctx, k.rand, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
		answer, err := c.Cancel(ctx, k.topic, turn)
		op.Version, op.State = answer.Topic.Version, answer.Topic.Status
		return err
	})
}

// settle waits until a turn can go on, and tells whether it can: a turn that
// was ended cannot. A turn that waits for a person's attention gets it.
func (k *talk) settle(ctx context.Context, turn *client.Turn) bool {
	for ctx.Err() == nil {
		if k.rand.IntN(4) == 0 {
			k.glance(ctx)
		}
		now, ok := k.look(ctx, turn.ID, time.Second)
		switch {
		case !ok:
			pause(ctx, 100*time.Millisecond)
		case now.State == "continuing" || now.State == "done":
			return true
		case now.State == "aborted" || now.State == "error":
			return false
		case now.State == "needs-attention":
			k.clearUp(ctx, now)
		}
	}
	return false
}

// look reads a turn, and waits a while for its change.
func (k *talk) look(ctx context.Context, turn string, wait time.Duration) (now client.Turn, ok bool) {
	op := history.Op{Process: "backend-a", Kind: history.Turn, Node: k.rand.IntN(2), Topic: k.topic, Turn: turn}
	_, err := k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) (err error) {
		now, err = c.Turn(ctx, turn, client.Wait(wait))
		op.State = now.State
		return err
	})
	return now, err == nil
}

// glance reads the topic's status, as a list of conversations does.
func (k *talk) glance(ctx context.Context) {
	op := history.Op{Process: "reader", Kind: history.Topic, Node: k.rand.IntN(2), Topic: k.topic}
	_, _ = k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
		topic, err := c.Topic(ctx, k.topic)
		op.State, op.Version = topic.Status, topic.Version
		return err
	})
}
