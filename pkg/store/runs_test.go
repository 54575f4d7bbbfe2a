package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// started registers an allowed call of a tool and claims it.
func started(t *testing.T, s *Store, topic string, tool model.CallTool) *model.Call {
	t.Helper()
	call := register(t, s, registration(topic, allowed(tool, "a"))).Turn.Calls[0]
	claimed, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, "token"))
	if err != nil {
		t.Fatal(err)
	}
	return claimed.Call
}

// loseLeases lets every lease run out and sweeps.
func loseLeases(t *testing.T, s *Store) {
	t.Helper()
	exec(t, s, `update calls set lease_until = clock_timestamp() - interval '1 second' where run = 'started'`)
	if _, err := s.LoseLeases(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func reread(t *testing.T, s *Store, id model.CallID) CallView {
	t.Helper()
	c, err := s.Call(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// I4: what a lost lease does goes by the tool's effect, and every attempt is
// on the call.
func TestI4ALostLeaseGoesByTheEffect(t *testing.T) {
	t.Parallel()
	s := open(t)
	for effect, want := range map[model.Effect]model.RunState{
		model.EffectRead: model.RunQueued, model.EffectIdempotent: model.RunQueued,
		model.EffectKeyed: model.RunQueued, model.EffectUnsafe: model.RunUnknown,
	} {
		call := started(t, s, string(effect), putTool(t, s, "tool_"+string(effect), effect))
		loseLeases(t, s)
		got := reread(t, s, call.ID)
		if got.Run != want || len(got.Attempts) != 1 || got.Attempts[0].Outcome != "lease-lost" {
			t.Errorf("%s: %s, attempts %+v", effect, got.Run, got.Attempts)
		}
	}
	requireConsistent(t, s)
}

// I4: after as many attempts as allowed a read has failed, and of anything
// else the outcome is unknown; a key that its tool has forgotten is not used
// again.
func TestI4AttemptsAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t)
	for effect, want := range map[model.Effect]model.RunState{
		model.EffectRead: model.RunFailed, model.EffectIdempotent: model.RunUnknown, model.EffectKeyed: model.RunUnknown,
	} {
		call := started(t, s, string(effect), putTool(t, s, "tool_"+string(effect), effect))
		for range 2 {
			loseLeases(t, s)
			exec(t, s, `update calls set not_before = clock_timestamp() where run = 'queued'`)
			if _, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, model.NewToken())); err != nil {
				t.Fatal(err)
			}
		}
		loseLeases(t, s)
		if got := reread(t, s, call.ID); got.Run != want || got.Fence != 3 {
			t.Errorf("%s after 3 attempts: %s, fence %d", effect, got.Run, got.Fence)
		}
	}
	old := started(t, s, "old", putTool(t, s, "old_key", model.EffectKeyed))
	exec(t, s, `update calls set first_started_at = clock_timestamp() - interval '1 hour' where call_id = $1`, string(old.ID))
	loseLeases(t, s)
	if got := reread(t, s, old.ID); got.Run != model.RunUnknown {
		t.Errorf("a key beyond its retention: %s", got.Run)
	}
	requireConsistent(t, s)
}

// I4: an attempt that proves that nothing was sent is followed by another,
// whatever the effect; a requeued call waits before it is claimed.
func TestI4NothingSentIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	nothing := model.Result{Kind: model.ResultNothingSent, Text: "connection refused"}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", nothing); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", nothing); err != nil {
		t.Errorf("the same result again: %v", err)
	}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "another", nothing); !errors.Is(err, model.ErrFenceLost) {
		t.Errorf("somebody else's: %v", err)
	}
	if got := reread(t, s, call.ID); got.Run != model.RunQueued || len(got.Attempts) != 1 {
		t.Fatal(got.Run, len(got.Attempts))
	}
	if _, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, "second")); !errors.Is(err, model.ErrNotClaimable) {
		t.Fatalf("claimed before its time: %v", err)
	}
	exec(t, s, `update calls set not_before = clock_timestamp()`)
	claimed, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, "second"))
	if err != nil || claimed.Call.Fence != 2 {
		t.Fatalf("second attempt: %v", err)
	}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", nothing); !errors.Is(err, model.ErrFenceLost) {
		t.Fatalf("a result of the first attempt: %v", err)
	}
}

// I4: a keyed call that waited for its next attempt until the tool has
// forgotten the key is given up at the claim, and nothing says that it did not
// run.
func TestI4AKeyThatTheToolForgotIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "pay", model.EffectKeyed))
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", model.Result{Kind: model.ResultUnknown, Text: "cut"}); err != nil {
		t.Fatal(err)
	}
	exec(t, s, `update calls set not_before = clock_timestamp(), first_started_at = first_started_at - interval '1 hour'`)
	if _, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, "second")); !errors.Is(err, model.ErrNotClaimable) {
		t.Fatalf("claimed behind the key's retention: %v", err)
	}
	got := reread(t, s, call.ID)
	if got.Run != model.RunFailed || got.State != model.CallOutputError || !strings.Contains(got.ErrorText, "may have taken effect") || len(got.Attempts) != 1 {
		t.Errorf("%s, %s, %q, %d attempts", got.Run, got.State, got.ErrorText, len(got.Attempts))
	}
	requireInvariants(t, s, Scope{})
}

// An unknown outcome holds the turn, accepts one late result of its own
// fence, and then the turn goes on.
func TestALateResultOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	loseLeases(t, s)
	turn := scalar[string](t, s, `select state from turns`)
	if turn != string(model.TurnNeedsAttention) {
		t.Fatalf("the turn is %s", turn)
	}
	if view, _ := s.Topic(t.Context(), tenant, "t"); view.Status() != model.TopicAwaitingApproval {
		t.Fatalf("the topic is %s", view.Status())
	}
	result := model.Result{Kind: model.ResultSucceeded, Output: []byte(`"late"`)}
	for range 2 {
		if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", result); err != nil {
			t.Fatal(err)
		}
	}
	if got := reread(t, s, call.ID); got.State != model.CallOutputAvailable || got.Outcome != "" {
		t.Fatalf("%s, %q", got.State, got.Outcome)
	}
	if n := scalar[int](t, s, `select count(*) from continuations`); n != 1 {
		t.Fatalf("%d continuations", n)
	}
	requireConsistent(t, s)
}

// I2: an ended turn makes no continuation, even if a started call finishes
// later; its result is recorded all the same.
func TestI2AnEndedTurnMakesNoContinuation(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "keyed", model.EffectKeyed))
	if _, err := s.Cancel(t.Context(), tenant, "t", "", "key:ops", "api"); err != nil {
		t.Fatal(err)
	}
	renewed, err := s.RenewLeases(t.Context(), tenant, []Renewal{{call.ID, 1, "token"}}, 1000)
	if err != nil || len(renewed) != 1 || !renewed[0].Cancel {
		t.Fatalf("renewed: %+v, %v", renewed, err)
	}
	loseLeases(t, s)
	if got := reread(t, s, call.ID); got.Run != model.RunUnknown {
		t.Fatalf("a lost lease in an ended turn re-queues nothing, got %s", got.Run)
	}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", model.Result{Kind: model.ResultSucceeded, Output: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if got := reread(t, s, call.ID); got.State != model.CallOutputAvailable {
		t.Fatal(got.State)
	}
	view, err := s.Topic(t.Context(), tenant, "t")
	if n := scalar[int](t, s, `select count(*) from continuations`); err != nil || n != 0 || view.Status() != model.TopicAborted {
		t.Fatalf("%d continuations, topic %s, %v", n, view.Status(), err)
	}
	requireConsistent(t, s)
}

// A text that Postgres refuses neither kills the worker's commit nor is
// dropped.
func TestAFailureWithNULIsRecorded(t *testing.T) {
	t.Parallel()
	s := open(t)
	call := started(t, s, "t", putTool(t, s, "delete_file", model.EffectUnsafe))
	bad := model.Result{Kind: model.ResultFailed, Text: "no\x00pe \xff"}
	if _, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", bad); err != nil {
		t.Fatal(err)
	}
	if got := reread(t, s, call.ID); got.ErrorText != "no\\u0000pe \uFFFD" {
		t.Fatalf("%q", got.ErrorText)
	}
}

// A card whose deadline has passed is expired by the sweep, or by the very
// decision that comes too late; both settle what follows.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	swept := register(t, s, registration("swept", asking(tool, "a"))).Turn
	decided := register(t, s, registration("decided", asking(tool, "a"))).Turn
	exec(t, s, `update approvals set expires_at = clock_timestamp() - interval '1 second'`)
	if _, err := s.Decide(t.Context(), tenant, verdict(decided.Calls[0], true, "bob")); !errors.Is(err, model.ErrApprovalClosed) {
		t.Fatalf("too late: %v", err)
	}
	if n, err := s.ExpireApprovals(t.Context()); err != nil || n != 1 {
		t.Fatalf("swept %d, %v", n, err)
	}
	for _, turn := range []*model.Turn{swept, decided} {
		got, err := s.Turn(t.Context(), tenant, turn.ID)
		if err != nil || got.State() != model.TurnContinuing || got.Calls[0].Approval.State != model.ApprovalExpired ||
			got.Calls[0].State != model.CallOutputDenied || got.Calls[0].Outcome != model.OutcomeExpired {
			t.Errorf("%s: %s, %+v", turn.Topic, got.State(), got.Calls[0].Approval)
		}
	}
	requireConsistent(t, s)
}

// A hold keeps the continuation from its sink; when it lapses, deny closes
// the cards and park makes the turn an ordinary one. Lapse and decision race
// under the turn's lock: whichever commits first stands.
func TestHoldsLapse(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	for answer, want := range map[model.OnLapse]model.TurnState{
		model.LapseDeny: model.TurnContinuing, model.LapsePark: model.TurnAwaitingApproval,
	} {
		r := registration(string(answer), asking(tool, "a"))
		r.Turn.Hold = &model.Hold{Lease: time.Minute, OnLapse: answer}
		turn := register(t, s, r).Turn
		if n, err := s.LapseHolds(t.Context()); err != nil || n != 0 {
			t.Fatalf("lapsed early: %d, %v", n, err)
		}
		if err := s.RenewHold(t.Context(), tenant, turn.ID); err != nil {
			t.Fatal(err)
		}
		exec(t, s, `update turns set hold_until = clock_timestamp() - interval '1 second' where hold_until is not null`)
		if err := s.RenewHold(t.Context(), tenant, turn.ID); err != nil {
			t.Fatal(err)
		}
		if n, err := s.LapseHolds(t.Context()); err != nil || n != 1 {
			t.Fatalf("lapsed: %d, %v", n, err)
		}
		if got := state(t, s, turn.ID); got != want {
			t.Errorf("%s: %s", answer, got)
		}
	}
	requireConsistent(t, s)
}

// A live turn that dies without a committed call gives the continuation back,
// once more for everybody; a late owner is refused.
func TestALiveTurnThatDies(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	first := register(t, s, registration("t", asking(tool, "a"))).Turn
	if _, err := s.Decide(t.Context(), tenant, verdict(first.Calls[0], false, "bob")); err != nil {
		t.Fatal(err)
	}
	live := registration("t")
	live.Message, live.Continues, live.Live, live.Content = "", first.ID, time.Minute, sum("live")
	opened := register(t, s, live)
	if opened.Topic.Status() != model.TopicStreaming {
		t.Fatalf("live: %s", opened.Topic.Status())
	}
	exec(t, s, `update turns set live_until = clock_timestamp() - interval '1 second' where live_until is not null`)
	if n, err := s.CloseDeadTurns(t.Context()); err != nil || n != 2 {
		t.Fatalf("closed: %d, %v", n, err)
	}
	again, err := s.Turn(t.Context(), tenant, first.ID)
	if err != nil || again.Continuation.State != model.ContinuationReady || again.Continuation.Generation != 1 {
		t.Fatalf("returned: %+v, %v", again.Continuation, err)
	}
	late := Ending{Turn: opened.Turn.ID, Topic: "t", Fence: opened.Turn.Live.Fence, Token: opened.Turn.Live.Token, Content: sum("late"), Parts: Parts{}}
	if _, err := s.FinishLive(t.Context(), tenant, late); !errors.Is(err, model.ErrTurnEnded) {
		t.Fatalf("a late owner: %v", err)
	}
	second := register(t, s, live).Turn
	ending := Ending{Turn: second.ID, Topic: "t", Fence: second.Live.Fence, Token: second.Live.Token, Content: sum("end"),
		Parts: Parts{[]byte(`{"type":"step-start"}`), nil}, Calls: []NewCall{asking(tool, "b")}, Expiry: time.Hour}
	ending.Calls[0].Call.Part = 1
	for range 2 {
		out, err := s.FinishLive(t.Context(), tenant, ending)
		if err != nil || out.Turn.State() != model.TurnAwaitingApproval {
			t.Fatalf("finish: %v", err)
		}
	}
	requireConsistent(t, s)
}

// A first turn that was opened live and died leaves its message for whoever
// begins it anew.
func TestAFirstLiveTurnThatDiesCanBeBegunAnew(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	live := registration("t")
	live.Live = time.Minute
	register(t, s, live)
	exec(t, s, `update turns set live_until = clock_timestamp() - interval '1 second'`)
	if n, err := s.CloseDeadTurns(t.Context()); err != nil || n != 1 {
		t.Fatalf("closed: %d, %v", n, err)
	}
	again := register(t, s, registration("t", asking(tool, "a")))
	if !again.Created || again.Turn.Message != "msg_1" || again.Topic.Status() != model.TopicAwaitingApproval {
		t.Fatalf("again: %+v", again)
	}
	h, err := s.Messages(t.Context(), tenant, "t", Range{})
	if err != nil || len(h.Messages) != 1 || len(h.Messages[0].Turns) != 1 {
		t.Fatalf("messages: %+v, %v", h, err)
	}
	requireConsistent(t, s)
}

// I9: another tenant's ids name nothing.
func TestI9AnotherTenantSeesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	if err := s.EnsureTenant(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	turn := register(t, s, registration("t", asking(tool, "a"), allowed(tool, "b"))).Turn
	asked, queued := turn.Calls[0], turn.Calls[1]
	errs := map[string]error{}
	_, errs["turn"] = s.Turn(t.Context(), "other", turn.ID)
	_, errs["topic"] = s.Topic(t.Context(), "other", "t")
	_, errs["messages"] = s.Messages(t.Context(), "other", "t", Range{})
	_, errs["card"] = s.Card(t.Context(), "other", asked.Approval.ID)
	_, errs["call"] = s.Call(t.Context(), "other", asked.ID)
	_, errs["input"] = s.CallInput(t.Context(), "other", asked.ID)
	_, errs["prepare"] = s.Prepare(t.Context(), "other", queued.ID)
	_, errs["decide"] = s.Decide(t.Context(), "other", verdict(asked, true, "bob"))
	_, errs["claim"] = s.Claim(t.Context(), "other", queued.ID, claimOf(queued, "x"))
	_, errs["cancel"] = s.Cancel(t.Context(), "other", "t", "", "key:x", "api")
	errs["redrive"] = s.Redrive(t.Context(), "other", turn.ID, "key:x", "api")
	for name, err := range errs {
		if !errors.Is(err, model.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := state(t, s, turn.ID); got != model.TurnAwaitingApproval {
		t.Error(got)
	}
}
