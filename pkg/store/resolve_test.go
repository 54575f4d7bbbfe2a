package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/model"
)

// unknown gives a call of unknown outcome in a topic of its own, whose attempt
// cannot be alive any more.
func unknown(t *testing.T, s *Store, topic string, tool model.CallTool) *model.Call {
	t.Helper()
	call := started(t, s, topic, tool)
	loseLeases(t, s)
	outlive(t, s)
	return call
}

// outlive lets the time pass in which attempts of unknown outcome may be
// alive.
func outlive(t *testing.T, s *Store) {
	t.Helper()
	exec(t, s, `update calls set lease_until = lease_until - interval '1 hour' where run = 'outcome-unknown'`)
}

func resolution(outcome model.ResolutionOutcome, output string) model.Resolution {
	r := model.Resolution{Outcome: outcome, Evidence: "looked", By: approver("bob"), Channel: "api"}
	if output != "" {
		r.Output = []byte(output)
	}
	return r
}

// I4: a resolution ends the call and continues the turn in one commit; who
// gave it, when, how and through which channel is on the call and in the
// audit.
func TestI4AResolutionIsOneCommit(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	for outcome, want := range map[model.ResolutionOutcome]model.RunState{
		model.ResolvedHappened: model.RunSucceeded, model.ResolvedDidNotHappen: model.RunFailed, model.ResolvedClosed: model.RunClosed,
	} {
		call := unknown(t, s, string(outcome), tool)
		before, err := s.Version(t.Context(), tenant, model.TopicID(outcome))
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range []model.ResolutionResult{model.ResolutionApplied, model.ResolutionAlreadyApplied} {
			got, err := s.Resolve(t.Context(), tenant, call.ID, resolution(outcome, ""))
			if err != nil || got.Result != result || got.Topic.Version != before+1 || got.Turn.State() != model.TurnContinuing {
				t.Fatalf("%s: %s, version %d, %v", outcome, got.Result, got.Topic.Version, err)
			}
		}
		c := reread(t, s, call.ID)
		if r := c.Resolution; c.Run != want || r == nil || r.Outcome != outcome || r.By != "user:bob" || r.Channel != "api" || r.Evidence != "looked" || r.At.IsZero() {
			t.Errorf("%s: %s, %+v", outcome, c.Run, c.Resolution)
		}
		if n := scalar[int](t, s, `select count(*) from audit where call_id = $1 and action = 'call.resolved'`, string(call.ID)); n != 1 {
			t.Errorf("%s: %d records in the audit", outcome, n)
		}
	}
	if n := scalar[int](t, s, `select count(*) from continuations`); n != 3 {
		t.Errorf("%d continuations", n)
	}
	requireInvariants(t, s, Scope{})
}

// Nobody resolves a call while its attempt may be alive, by the database's
// clock, or what is not unknown, or what is another tenant's; nothing is
// written then.
func TestAResolutionThatIsRefusedWritesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	tool.Timeout = time.Minute
	call := started(t, s, "t", tool)
	queued := register(t, s, registration("queued", allowed(tool, "a"))).Turn.Calls[0]
	resolve := func(id model.CallID, want error) {
		t.Helper()
		if got, err := s.Resolve(t.Context(), tenant, id, resolution(model.ResolvedClosed, "")); !errors.Is(err, want) || got.Result != "" {
			t.Errorf("%s: %q, %v", id, got.Result, err)
		}
	}
	before := scalar[int64](t, s, `select sum(version)::bigint from topics`)
	resolve(call.ID, model.ErrAttemptMayBeAlive)
	resolve(queued.ID, model.ErrNotUnknown)
	resolve(model.NewCallID(), model.ErrNotFound)
	if _, err := s.Resolve(t.Context(), "other", call.ID, resolution(model.ResolvedClosed, "")); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	if after := scalar[int64](t, s, `select sum(version)::bigint from topics`); after != before {
		t.Errorf("versions %d, before %d", after, before)
	}
	loseLeases(t, s)
	exec(t, s, `update calls set lease_until = clock_timestamp() - interval '80 seconds' where run = 'outcome-unknown'`)
	_, err := s.Resolve(t.Context(), tenant, call.ID, resolution(model.ResolvedClosed, ""))
	if alive, ok := errors.AsType[*model.AttemptMayBeAlive](err); !ok || alive.Wait <= 0 || alive.Wait > 10*time.Second {
		t.Errorf("10 s before: %v", err)
	}
	exec(t, s, `update calls set lease_until = clock_timestamp() - interval '90 seconds' where run = 'outcome-unknown'`)
	if got, err := s.Resolve(t.Context(), tenant, call.ID, resolution(model.ResolvedClosed, "")); err != nil || got.Result != model.ResolutionApplied {
		t.Errorf("after it: %s, %v", got.Result, err)
	}
	requireInvariants(t, s, Scope{})
}

// I4: a late result and a resolution race on two nodes, 200 rounds: whichever
// commits first stands, the other is told so, and the turn goes on once.
func TestI4AResolutionAndALateResultRace(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	s := nodes[0]
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	const rounds = 200
	calls := make([]*model.Call, rounds)
	for i := range calls {
		calls[i] = started(t, s, fmt.Sprint("t", i), tool)
	}
	exec(t, s, `update calls set lease_until = clock_timestamp() - interval '1 second'`)
	for lost := 1; lost > 0; {
		var err error
		if lost, err = s.LoseLeases(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	outlive(t, s)
	resolutions := 0
	for i, call := range calls {
		var resolve, finish error
		atOnce(2, func(n int) {
			if n == 0 {
				_, resolve = nodes[(i+n)%2].Resolve(context.Background(), tenant, call.ID, resolution(model.ResolvedHappened, `"person"`))
			} else {
				_, finish = nodes[(i+n)%2].Finish(context.Background(), tenant, call.ID, 1, "token",
					model.Result{Kind: model.ResultSucceeded, Output: []byte(`"tool"`)})
			}
		})
		want := `"tool"`
		switch {
		case resolve == nil && errors.Is(finish, model.ErrResultConflict):
			want = `"person"`
			resolutions++
		case finish == nil && errors.Is(resolve, model.ErrAlreadyResolved):
		default:
			t.Fatalf("round %d: resolution %v, result %v", i, resolve, finish)
		}
		if c := reread(t, s, call.ID); string(c.Output) != want || c.Run != model.RunSucceeded || (c.Resolution != nil) != (resolve == nil) {
			t.Fatalf("round %d: %s is %s, %+v", i, c.Run, c.Output, c.Resolution)
		}
	}
	if resolutions == 0 || resolutions == rounds {
		t.Errorf("the resolution won %d of %d rounds: nothing raced", resolutions, rounds)
	}
	if n := scalar[int](t, s, `select count(*) from continuations`); n != rounds {
		t.Errorf("%d continuations for %d turns", n, rounds)
	}
	requireInvariants(t, s, Scope{})
}

// Ten people resolve a call at once, in different ways: one resolution stands.
func TestOneResolutionStands(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	call := unknown(t, nodes[0], "t", putTool(t, nodes[0], "delete_file", model.EffectUnsafe))
	results := make([]string, 12)
	atOnce(12, func(i int) {
		got, err := nodes[i%2].Resolve(context.Background(), tenant, call.ID, resolution(model.ResolutionOutcomes[i%3], ""))
		if results[i] = string(got.Result); err != nil {
			results[i] = "refused"
			if !errors.Is(err, model.ErrAlreadyResolved) || got.Call.Resolution == nil {
				t.Errorf("resolve: %v", err)
			}
		}
	})
	if all := strings.Join(results, " "); strings.Count(all, "refused") != 8 || strings.Count(all, "already") != 3 {
		t.Errorf("results: %s", all)
	}
	requireInvariants(t, nodes[0], Scope{})
}

// A result that comes after the resolution changes nothing, and can be seen
// on its attempt.
func TestALateResultAfterAResolution(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := unknown(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	if _, err := s.Resolve(t.Context(), tenant, call.ID, resolution(model.ResolvedDidNotHappen, "")); err != nil {
		t.Fatal(err)
	}
	late := model.Result{Kind: model.ResultSucceeded, Output: []byte(`"late"`)}
	for range 2 {
		if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", late); !errors.Is(err, model.ErrResultConflict) {
			t.Fatal(err)
		}
	}
	c := reread(t, s, call.ID)
	if c.Run != model.RunFailed || c.Output != nil || c.Attempts[0].Outcome != model.AttemptRefused || !strings.Contains(c.Attempts[0].Detail, "succeeded") {
		t.Errorf("%s, %s, %+v", c.Run, c.Output, c.Attempts)
	}
	if n := scalar[int](t, s, `select count(*) from audit where action = 'attempt.refused'`); n != 1 {
		t.Errorf("%d records in the audit", n)
	}
	requireInvariants(t, s, Scope{})
}

// A call of a cancelled turn is resolved, too, and neither the turn's state
// nor the topic's changes.
func TestAResolutionInAnEndedTurn(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	if _, err := s.Cancel(t.Context(), tenant, "t", "", "key:ops", "api"); err != nil {
		t.Fatal(err)
	}
	loseLeases(t, s)
	outlive(t, s)
	got, err := s.Resolve(t.Context(), tenant, call.ID, resolution(model.ResolvedHappened, `"done"`))
	if err != nil || got.Turn.State() != model.TurnAborted || got.Topic.Status() != model.TopicAborted {
		t.Fatalf("%v: turn %s, topic %s", err, got.Turn.State(), got.Topic.Status())
	}
	h, err := s.Messages(t.Context(), tenant, "t", Range{ChangedAfter: got.Topic.Version - 1})
	if err != nil || len(h.Messages) != 1 || string(h.Messages[0].Turns[0].Calls[0].Output) != `"done"` {
		t.Errorf("the message that changed: %+v, %v", h, err)
	}
	if n := scalar[int](t, s, `select count(*) from continuations`); n != 0 {
		t.Errorf("%d continuations", n)
	}
	requireInvariants(t, s, Scope{})
}

// The resolution is guarded by the database as well.
func TestTheDatabaseKeepsAResolution(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := unknown(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	const give = `update calls set resolution = 'happened', resolved_by = 'user:eve', resolved_at = clock_timestamp()`
	refused := func(name, statement string) {
		t.Helper()
		_, err := s.pool.Exec(t.Context(), statement)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "23514" {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused("of a run that is still unknown", give)
	if _, err := s.Resolve(t.Context(), tenant, call.ID, resolution(model.ResolvedClosed, "")); err != nil {
		t.Fatal(err)
	}
	refused("another one", give)
	refused("its words", `update calls set evidence = 'other'`)
	refused("its end", `update calls set run = 'succeeded'`)
}
