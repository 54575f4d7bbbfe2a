package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

// two gives two nodes on one database.
func two(t *testing.T) [2]*Store {
	t.Helper()
	url := testservers.Database(t, Migrate)
	nodes := [2]*Store{openAt(t, url), openAt(t, url)}
	if err := nodes[0].EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// atOnce starts n functions at the same instant and waits for all.
func atOnce(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			do(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// I2: four people decide the four calls of a turn at the same instant on two
// nodes, 200 turns. Each turn gets exactly one continuation, never none.
func TestI2FourDecidersAtOnceMakeOneContinuation(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	const turns = 200
	atOnce(8, func(worker int) {
		for i := worker; i < turns; i += 8 {
			r := registration(fmt.Sprintf("t%d", i), asking(tool, "a"), asking(tool, "b"), asking(tool, "c"), asking(tool, "d"))
			out, err := nodes[i%2].Register(context.Background(), r)
			if err != nil {
				t.Errorf("register: %v", err)
				return
			}
			atOnce(4, func(n int) {
				d, err := nodes[n%2].Decide(context.Background(), tenant, verdict(out.Turn.Calls[n], false, fmt.Sprint("p", n)))
				if err != nil || d.Result != model.DecisionApplied {
					t.Errorf("decide: %s, %v", d.Result, err)
				}
			})
		}
	})
	s := nodes[0]
	if n := scalar[int](t, s, `select count(*) from continuations where state = 'ready'`); n != turns {
		t.Errorf("%d continuations for %d turns", n, turns)
	}
	if n := scalar[int](t, s, `select count(*) from turns where state = 'continuing'`); n != turns {
		t.Errorf("%d turns continue", n)
	}
	requireConsistent(t, s)
}

// I1: fifty identical decisions at once give one row and fifty times yes.
func TestI1FiftyIdenticalDecisions(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	out := register(t, nodes[0], registration("t1", asking(tool, "a")))
	d := verdict(out.Turn.Calls[0], true, "bob")
	applied := make([]model.DecisionResult, 50)
	atOnce(50, func(i int) {
		got, err := nodes[i%2].Decide(context.Background(), tenant, d)
		if err != nil {
			t.Errorf("decide: %v", err)
		}
		applied[i] = got.Result
	})
	count := map[model.DecisionResult]int{}
	for _, r := range applied {
		count[r]++
	}
	if count[model.DecisionApplied] != 1 || count[model.DecisionAlreadyApplied] != 49 {
		t.Errorf("results: %v", count)
	}
	if n := scalar[int](t, nodes[0], `select count(*) from decisions`); n != 1 {
		t.Errorf("%d decisions", n)
	}
}

// I1: conflicting decisions give one winner, and everybody else is told which
// verdict stands.
func TestI1ConflictingDecisions(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	for i := range 100 {
		out := register(t, nodes[0], registration(fmt.Sprintf("t%d", i), asking(tool, "a")))
		call := out.Turn.Calls[0]
		var won, lost [2]Decided
		var errs [2]error
		atOnce(2, func(n int) {
			won[n], errs[n] = nodes[n].Decide(context.Background(), tenant, verdict(call, n == 0, fmt.Sprint("p", n)))
			lost[n] = won[n]
		})
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		if errs[winner] != nil || won[winner].Result != model.DecisionApplied || !errors.Is(errs[1-winner], model.ErrAlreadyDecided) {
			t.Fatalf("errors: %v", errs)
		}
		if got := lost[1-winner].Call.Approval.DecidedBy; got != fmt.Sprintf("user:p%d", winner) {
			t.Fatalf("the loser is told that %s decided", got)
		}
	}
	requireConsistent(t, nodes[0])
}

// I2: of many that continue a turn at once, exactly one is accepted.
func TestI2OneAcceptance(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	for i := range 50 {
		out := register(t, nodes[0], registration(fmt.Sprintf("t%d", i), asking(tool, "a")))
		if _, err := nodes[0].Decide(t.Context(), tenant, verdict(out.Turn.Calls[0], false, "bob")); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		accepted := 0
		atOnce(4, func(n int) {
			next := registration(fmt.Sprintf("t%d", i))
			next.Message, next.Continues, next.Content = "", out.Turn.ID, sum(fmt.Sprint("n", n))
			next.Live = time.Minute
			_, err := nodes[n%2].Register(context.Background(), next)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if !errors.Is(err, model.ErrContinuationAccepted) {
				t.Errorf("register: %v", err)
			}
		})
		if accepted != 1 {
			t.Fatalf("%d accepted the continuation", accepted)
		}
	}
	requireConsistent(t, nodes[0])
}

// I4: of many that claim a call at once, one starts it; and its result is
// taken once, from that attempt alone.
func TestI4OneClaimOneResult(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	for i := range 30 {
		out := register(t, nodes[0], registration(fmt.Sprintf("t%d", i), allowed(tool, "a")))
		call := out.Turn.Calls[0]
		var mu sync.Mutex
		winner := ""
		atOnce(6, func(n int) {
			token := fmt.Sprint("token", n)
			_, err := nodes[n%2].Claim(context.Background(), tenant, call.ID, claimOf(call, token))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && winner == "":
				winner = token
			case err == nil:
				t.Error("two claims were accepted")
			case !errors.Is(err, model.ErrNotClaimable):
				t.Errorf("claim: %v", err)
			}
		})
		again, err := nodes[0].Claim(t.Context(), tenant, call.ID, claimOf(call, winner))
		if err != nil || again.Call.Fence != 1 {
			t.Fatalf("the same claim again: %v", err)
		}
		done := model.Result{Kind: model.ResultSucceeded, Output: []byte("1")}
		if _, err := nodes[1].Finish(t.Context(), tenant, call.ID, 1, "another", done); !errors.Is(err, model.ErrFenceLost) {
			t.Fatalf("a result under another token: %v", err)
		}
		for range 2 {
			if _, err := nodes[1].Finish(t.Context(), tenant, call.ID, 1, winner, done); err != nil {
				t.Fatalf("finish: %v", err)
			}
		}
		other := model.Result{Kind: model.ResultFailed, Text: "no"}
		if _, err := nodes[0].Finish(t.Context(), tenant, call.ID, 1, winner, other); !errors.Is(err, model.ErrResultConflict) {
			t.Fatalf("another result of the same attempt: %v", err)
		}
	}
	if n := scalar[int](t, nodes[0], `select count(*) from attempts`); n != 30 {
		t.Errorf("%d attempts for 30 calls", n)
	}
	requireConsistent(t, nodes[0])
}

// I5: what was approved is what runs: other bytes or another definition stop
// the call instead of starting it.
func TestI5ChangedDefinitionsNeverStart(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	first := register(t, s, registration("t1", allowed(tool, "a"))).Turn.Calls[0]
	second := register(t, s, registration("t2", allowed(tool, "a"))).Turn.Calls[0]
	wrong := claimOf(first, "token")
	wrong.Digest = sum("other bytes")
	if _, err := s.Claim(t.Context(), tenant, first.ID, wrong); !errors.Is(err, model.ErrNotClaimable) {
		t.Fatalf("other bytes: %v", err)
	}
	putTool(t, s, "delete_file", model.EffectRead)
	if _, err := s.Claim(t.Context(), tenant, second.ID, claimOf(second, "token")); !errors.Is(err, model.ErrNotClaimable) {
		t.Fatalf("another definition: %v", err)
	}
	for _, id := range []model.CallID{first.ID, second.ID} {
		c, err := s.Call(t.Context(), tenant, id)
		if err != nil || c.Run != model.RunStopped || c.State != model.CallOutputError || len(c.Attempts) != 0 {
			t.Errorf("stopped call: %s, %s, %d attempts, %v", c.Run, c.State, len(c.Attempts), err)
		}
	}
	requireConsistent(t, s)
}

// I6: what is denied is never claimed, and what is halted never starts.
func TestI6DeniedAndHaltedNeverStart(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	denied := register(t, s, registration("t1", asking(tool, "a"))).Turn.Calls[0]
	if _, err := s.Decide(t.Context(), tenant, verdict(denied, false, "bob")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), tenant, denied.ID, claimOf(denied, "x")); !errors.Is(err, model.ErrNotClaimable) {
		t.Errorf("denied: %v", err)
	}
	halted := register(t, s, registration("t2", allowed(tool, "a"))).Turn.Calls[0]
	if err := s.Halt(t.Context(), tenant, true, "key:ops", "api"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), tenant, halted.ID, claimOf(halted, "x")); !errors.Is(err, model.ErrNotClaimable) {
		t.Errorf("halted: %v", err)
	}
	if c, _ := s.Call(t.Context(), tenant, halted.ID); c.Run != model.RunStopped {
		t.Errorf("halted: %s", c.Run)
	}
}
