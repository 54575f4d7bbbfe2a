package users

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/ledger"
)

// clearUp is what a person does about a turn of which nobody knows what
// happened: most end it, some find out. As long as an attempt may be alive
// they are not heard, and ask again.
func (k *talk) clearUp(ctx context.Context, turn client.Turn) {
	if k.rand.IntN(2) == 0 || !k.patient() {
		k.cancel(ctx, turn.ID)
		return
	}
	for _, call := range turn.Calls {
		if call.Run == "outcome-unknown" {
			k.resolve(ctx, call)
		}
	}
}

// patient tells whether there is time to find out: longer than a lease, a
// tool's time and what is added to them.
func (k *talk) patient() bool { return k.history.Now() < k.o.Load-15*time.Second }

// resolve says what became of a call, by the ledger, until that is heard.
func (k *talk) resolve(ctx context.Context, call client.TurnCall) {
	for ctx.Err() == nil {
		word, ok := k.findOut(call.ID)
		if !ok {
			return
		}
		op := history.Op{Process: "user:carol", Kind: history.Resolve, Topic: k.topic, Call: call.ID, By: "user:carol", Answer: word.Outcome}
		done, _ := k.insist(ctx, k.rand, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) error {
			answer, err := c.ResolveCall(ctx, call.ID, word)
			op.State = answer.Call.Run
			return err
		})
		if done.Problem != "attempt-may-be-alive" {
			return
		}
		pause(ctx, 2*time.Second)
	}
}

// findOut looks into the ledger, as a person looks whether the mail was sent.
func (k *talk) findOut(call string) (client.Resolution, bool) {
	effects, err := ledger.Read(k.site.Ledger)
	if err != nil {
		return client.Resolution{}, false
	}
	for _, e := range effects {
		if e.Call == call {
			return client.Resolution{Outcome: "happened", Evidence: "it is in the ledger"}, true
		}
	}
	return client.Resolution{Outcome: draw(k.rand, "did-not-happen", "closed")}, true
}

func draw(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }
