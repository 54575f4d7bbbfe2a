package users

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
)

// attend lets people answer a turn's cards and callers run its calls, beside
// the conversation. A card that is ignored has no answer.
func (k *talk) attend(ctx context.Context, turn *client.Turn, fate fate) {
	// Often everybody answers at the same moment: the last of a turn's
	// decisions is what makes it go on.
	together := k.rand.IntN(2) == 0
	for _, call := range turn.Calls {
		if call.Executor == "caller" {
			for _, process := range []string{"backend-a", "backend-b"} {
				r := fork(k.rand)
				k.beside.Go(func() { k.runCall(ctx, r, process, call) })
			}
		}
		if call.ApprovalID == "" {
			continue
		}
		r := fork(k.rand)
		k.beside.Go(func() {
			if !together {
				pause(ctx, time.Duration(r.IntN(600))*time.Millisecond)
			}
			k.decideAll(ctx, r, call, fate)
		})
	}
}

// decision is what one person is going to answer.
type decision struct {
	by       string
	approved bool
	edit     string
	seen     bool // sends the digest of the card
	times    int  // clicks at once
}

// plan draws what people are going to do about a card.
func plan(r *rand.Rand, n string) []decision {
	bob, eve := decision{by: "user:bob", approved: true, times: 1}, decision{by: "user:eve", times: 1}
	bob.seen, eve.seen = r.IntN(3) == 0, r.IntN(3) == 0
	switch w := r.IntN(100); {
	case w < 35:
		return []decision{bob}
	case w < 45:
		return []decision{eve} // who denies
	case w < 60:
		bob.times = 2 + r.IntN(3)
		return []decision{bob}
	case w < 80:
		return []decision{bob, eve}
	case w < 90:
		eve.approved = true
		bob.edit = input(n, 1+r.IntN(2))
		return []decision{bob, eve}
	}
	bob.edit = input(n, 1+r.IntN(2))
	return []decision{bob}
}

// decideAll lets people answer a card at once, and goes on asking people until
// it is closed; nobody sees to it where the card is ignored.
func (k *talk) decideAll(ctx context.Context, r *rand.Rand, call client.TurnCall, fate fate) {
	card := client.Approval{ID: call.ApprovalID, CallID: call.ID}
	look := func() { // a look that fails leaves what was seen before
		if now, ok := k.read(ctx, r, call.ApprovalID); ok {
			card = now
		}
	}
	if look(); fate == ignored {
		return
	}
	var all sync.WaitGroup
	for i, d := range plan(r, call.ToolCallID) {
		id := fmt.Sprintf("d-%s-%d", call.ApprovalID, i)
		for range d.times {
			own := fork(r)
			all.Go(func() { k.decide(ctx, own, card, id, d) })
		}
	}
	own := fork(r)
	all.Go(func() { k.read(ctx, own, call.ApprovalID) })
	all.Wait()
	for n := 0; ctx.Err() == nil; n++ {
		if look(); card.State != "requested" && card.State != "" {
			return
		}
		d := decision{by: fmt.Sprintf("user:person-%d", n), approved: true, seen: r.IntN(2) == 0}
		k.decide(ctx, r, card, fmt.Sprintf("d-%s-more-%d", call.ApprovalID, n), d)
	}
}

// decide answers a card until that is answered.
func (k *talk) decide(ctx context.Context, r *rand.Rand, card client.Approval, id string, d decision) {
	body := client.Decision{Approved: d.approved, DecisionID: id, Reason: "because"}
	op := history.Op{Process: d.by, Kind: history.Decide, Topic: k.topic, Turn: card.Turn, Call: card.CallID, Approval: card.ID,
		Decision: id, Approved: d.approved, By: d.by, Edit: d.edit}
	if d.edit != "" {
		body.UpdatedInput = json.RawMessage(d.edit)
	}
	if d.seen && card.Digest != "" {
		body.Digest, op.Seen = card.Digest, string(card.Input)
	}
	_, _ = k.insist(ctx, r, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
		answer, err := c.Decide(ctx, card.ID, body)
		op.Answer = answer.Result
		now := answer.Approval
		if p, ok := problemOf(err); ok {
			p.Member("approval", &now)
		}
		op.State, op.Input, op.Version = now.State, string(now.Input), answer.Topic.Version
		return err
	})
}

// read reads a card from the rows.
func (k *talk) read(ctx context.Context, r *rand.Rand, approval string) (card client.Approval, ok bool) {
	op := history.Op{Process: "reader", Kind: history.Card, Node: r.IntN(2), Topic: k.topic, Approval: approval}
	_, err := k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) (err error) {
		card, err = c.Approval(ctx, approval)
		op.State, op.Input, op.Call, op.Turn = card.State, string(card.Input), card.CallID, card.Turn
		if card.Decision != nil {
			op.Approved = card.Decision.Approved
		}
		return err
	})
	if err == nil && r.IntN(20) == 0 {
		k.pry(ctx, r)
	}
	return card, err == nil
}

// pry asks for a card of another tenant, which is not there.
func (k *talk) pry(ctx context.Context, r *rand.Rand) {
	other := k.tenants[(k.n+1)%2]
	approval := k.someOf(other, r)
	if approval == "" {
		return
	}
	op := history.Op{Process: "reader", Kind: history.Foreign, Node: r.IntN(2), Approval: approval}
	_, _ = k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, _ *history.Op) error {
		_, err := c.Approval(ctx, approval)
		return err
	})
}
