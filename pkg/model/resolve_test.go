package model

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// start is when the attempts of these tests start; their lease is a minute,
// their tool's time ten seconds.
var start = time.Unix(2000, 0)

// running is a turn whose one call of an effect has started under "token".
func running(t *testing.T, effect Effect) (*Turn, *Call) {
	t.Helper()
	c := &Call{ID: "c", State: CallInputAvailable, AllowedBy: "default", Digest: []byte("d"),
		Tool: CallTool{MaxAttempts: 3, Effect: effect, Executor: ExecutorWorker, Timeout: 10 * time.Second, KeyRetention: time.Hour}}
	turn := &Turn{ID: "t", Execution: ExecuteWhenDecided, RequestedBy: "user:alice", Calls: []*Call{c}}
	turn.Begin(start)
	claimAt(t, turn, start)
	return turn, c
}

func claimAt(t *testing.T, turn *Turn, at time.Time) {
	t.Helper()
	if err := turn.Claim(turn.Calls[0], Claim{Token: "token", Worker: "w", Lease: time.Minute, Digest: []byte("d")}, at); err != nil {
		t.Fatal(err)
	}
}

// doubted is a turn whose one call's outcome is unknown since its lease ran
// out, a minute after start.
func doubted(t *testing.T) (*Turn, *Call) {
	t.Helper()
	turn, c := running(t, EffectUnsafe)
	if !turn.LoseLease(c, start.Add(time.Minute)) || c.Run != RunUnknown || turn.State() != TurnNeedsAttention {
		t.Fatalf("run %s, turn %s", c.Run, turn.State())
	}
	return turn, c
}

// quiet is when the attempt of doubted cannot be alive any more: lease, the
// tool's time, margin.
var quiet = start.Add(time.Minute + 10*time.Second + QuarantineMargin)

func resolutionOf(outcome ResolutionOutcome, evidence string) Resolution {
	return Resolution{Outcome: outcome, Evidence: evidence, Channel: "cli",
		By: Principal{Subject: "user:bob", Key: "ops", OnBehalf: true, Roles: []Role{RoleApprover}}}
}

// I4: what a person found out ends the run and the call, and the turn goes on;
// the model is told what is known and no more.
func TestI4APersonResolvesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[ResolutionOutcome]struct {
		run     RunState
		part    CallState
		outcome Outcome
		says    string
	}{
		ResolvedHappened:     {RunSucceeded, CallOutputAvailable, "", "took effect. Evidence: it is there"},
		ResolvedDidNotHappen: {RunFailed, CallOutputError, "", "did not take effect. Evidence: it is there"},
		ResolvedClosed:       {RunClosed, CallOutputError, OutcomeUnknown, "must not be repeated blindly"},
	} {
		turn, c := doubted(t)
		got, err := turn.Resolve(c, resolutionOf(outcome, "it is there"), quiet)
		if got != ResolutionApplied || err != nil || turn.Err() != nil {
			t.Errorf("%s: %s, %v, %v", outcome, got, err, turn.Err())
		}
		if c.Run != want.run || c.State != want.part || c.Outcome != want.outcome || turn.State() != TurnContinuing {
			t.Errorf("%s: %s, %s, %q, turn %s", outcome, c.Run, c.State, c.Outcome, turn.State())
		}
		if said := c.ErrorText + string(c.NewOutput); !strings.Contains(said, want.says) {
			t.Errorf("%s: the model is told %q", outcome, said)
		}
		if r := c.Resolution; r.By != "user:bob" || r.Channel != "cli" || !r.At.Equal(quiet) || r.Evidence != "it is there" {
			t.Errorf("%s: on the call: %+v", outcome, r)
		}
		audit := turn.Records.Audit[len(turn.Records.Audit)-1]
		if audit.Action != "call.resolved" || audit.Actor != "user:bob by key:ops" || audit.Channel != "cli" || !strings.Contains(audit.Detail, "it is there") {
			t.Errorf("%s: in the audit: %+v", outcome, audit)
		}
	}
}

// The output that a person has is the call's output, byte by byte.
func TestAPersonsOutputIsTheCalls(t *testing.T) {
	t.Parallel()
	turn, c := doubted(t)
	r := resolutionOf(ResolvedHappened, "the mail is in the outbox")
	r.Output = []byte(`{"id":  1.0}`)
	if _, err := turn.Resolve(c, r, quiet); err != nil || string(c.NewOutput) != `{"id":  1.0}` {
		t.Errorf("%s, %v", c.NewOutput, err)
	}
}

// The rows of the resolution endpoint's table, in their order.
func TestResolveRowByRow(t *testing.T) {
	t.Parallel()
	happened, closed := resolutionOf(ResolvedHappened, "seen"), resolutionOf(ResolvedClosed, "")
	other := happened
	other.Output = []byte(`"other"`)
	as := func(change func(*Principal)) Resolution {
		r := happened
		change(&r.By)
		return r
	}
	for name, c := range map[string]struct {
		before func(*Turn, *Call)
		r      Resolution
		at     time.Time
		want   ResolutionResult
		err    error
	}{
		"1 a backend's key": {nil, as(func(p *Principal) { p.Roles = []Role{RoleBackend, RoleAdmin} }), quiet, "", ErrNotPermitted},
		"1 not one of the approvers": {func(_ *Turn, c *Call) { c.Approval = &Approval{Rule: Requirement{Restricted: true}} },
			happened, quiet, "", ErrNotPermitted},
		"1 the requester, under four eyes": {func(_ *Turn, c *Call) { c.Approval = &Approval{Rule: Requirement{FourEyes: true}} },
			as(func(p *Principal) { p.Subject = "user:alice" }), quiet, "", ErrNotPermitted},
		"2 the same again":              {resolved(happened), happened, quiet, ResolutionAlreadyApplied, nil},
		"2 the same, by somebody else":  {resolved(happened), as(func(p *Principal) { p.Subject = "user:cid" }), quiet, ResolutionAlreadyApplied, nil},
		"3 another":                     {resolved(happened), closed, quiet, "", ErrAlreadyResolved},
		"3 the same with other output":  {resolved(happened), other, quiet, "", ErrAlreadyResolved},
		"3 the tool's own result":       {late(ResultSucceeded), happened, quiet, "", ErrAlreadyResolved},
		"4 it was not started":          {func(_ *Turn, c *Call) { c.Run = RunQueued }, happened, quiet, "", ErrNotUnknown},
		"4 it was stopped":              {func(_ *Turn, c *Call) { c.Run = RunStopped }, happened, quiet, "", ErrNotUnknown},
		"5 it runs":                     {func(_ *Turn, c *Call) { c.Run = RunStarted }, happened, quiet, "", ErrAttemptMayBeAlive},
		"5 the attempt may be alive":    {nil, happened, quiet.Add(-time.Nanosecond), "", ErrAttemptMayBeAlive},
		"6 it cannot be alive any more": {nil, closed, quiet, ResolutionApplied, nil},
	} {
		turn, call := doubted(t)
		if c.before != nil {
			c.before(turn, call)
		}
		audited := len(turn.Records.Audit)
		got, err := turn.Resolve(call, c.r, c.at)
		if got != c.want || !errors.Is(err, c.err) || turn.Err() != nil {
			t.Errorf("%s: %q, %v, %v", name, got, err, turn.Err())
		}
		if wrote := len(turn.Records.Audit) > audited; wrote != (c.want == ResolutionApplied) {
			t.Errorf("%s: something was written: %v", name, wrote)
		}
	}
}

func resolved(r Resolution) func(*Turn, *Call) {
	return func(t *Turn, c *Call) { _, _ = t.Resolve(c, r, quiet) }
}

func late(kind ResultKind) func(*Turn, *Call) {
	return func(t *Turn, c *Call) {
		_ = t.Finish(c, 1, "token", Result{Kind: kind, Output: []byte(`"late"`), Text: "late"}, quiet)
	}
}

// A refusal says until when; an attempt whose owner is done with it is over
// earlier than its lease.
func TestTheQuarantineEndsWhenTheAttemptCannotBeAlive(t *testing.T) {
	t.Parallel()
	turn, c := doubted(t)
	_, err := turn.Resolve(c, resolutionOf(ResolvedClosed, ""), quiet.Add(-time.Minute))
	if alive, ok := errors.AsType[*AttemptMayBeAlive](err); !ok || !alive.Until.Equal(quiet) || alive.Wait != time.Minute {
		t.Errorf("%+v", err)
	}
	turn, c = running(t, EffectUnsafe)
	said := start.Add(5 * time.Second)
	if err := turn.Finish(c, 1, "token", Result{Kind: ResultUnknown, Text: "500"}, said); err != nil || c.Run != RunUnknown {
		t.Fatal(c.Run, err)
	}
	if want := said.Add(10*time.Second + QuarantineMargin); !c.ResolvableAt().Equal(want) {
		t.Errorf("it is resolvable at %s, want %s", c.ResolvableAt(), want)
	}
}

// A late result of the same fence is accepted until somebody has resolved the
// call, and refused afterwards; the refusal can be seen on the attempt. The
// proof that nothing was sent is such a result.
func TestALateResultIsAcceptedOnceAndNeverAfterAResolution(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ResultKind]RunState{
		ResultSucceeded: RunSucceeded, ResultFailed: RunFailed, ResultNothingSent: RunFailed, ResultUnknown: RunUnknown,
	} {
		turn, c := doubted(t)
		late(kind)(turn, c)
		if c.Run != want || turn.Err() != nil {
			t.Errorf("late %s: %s, %v", kind, c.Run, turn.Err())
		}
		turn, c = doubted(t)
		resolved(resolutionOf(ResolvedDidNotHappen, ""))(turn, c)
		text := c.ErrorText
		for range 2 {
			err := turn.Finish(c, 1, "token", Result{Kind: kind, Output: []byte(`1`)}, quiet)
			if !errors.Is(err, ErrResultConflict) || c.Run != RunFailed || c.ErrorText != text || c.NewOutput != nil {
				t.Errorf("%s after the resolution: %v, %s", kind, err, c.Run)
			}
		}
		refused := slices.DeleteFunc(slices.Clone(turn.Records.Attempts), func(a AttemptRecord) bool { return a.Outcome != AttemptRefused })
		if noted := len(refused); kind == ResultUnknown && noted != 0 || kind != ResultUnknown && noted != 1 {
			t.Errorf("%s: noted %d times on the attempt", kind, noted)
		}
	}
}

// Where an earlier attempt may have taken effect, the proof that the last one
// sent nothing does not end the doubt.
func TestAProofAboutOneAttemptIsNoneAboutAnother(t *testing.T) {
	t.Parallel()
	turn, c := running(t, EffectIdempotent)
	for range 2 {
		turn.LoseLease(c, c.LeaseUntil)
		claimAt(t, turn, c.NotBefore)
	}
	turn.LoseLease(c, c.LeaseUntil)
	if err := turn.Finish(c, 3, "token", Result{Kind: ResultNothingSent}, c.LeaseUntil); err != nil || c.Run != RunUnknown {
		t.Errorf("%s, %v", c.Run, err)
	}
}

// A call of an ended turn is resolved, too; the turn stays what it is and
// makes no continuation (I2).
func TestI2AResolutionInAnEndedTurnContinuesNothing(t *testing.T) {
	t.Parallel()
	turn, c := doubted(t)
	turn.End(TurnAborted, OutcomeCancelled, TextCancelled, quiet)
	if got, err := turn.Resolve(c, resolutionOf(ResolvedHappened, "seen"), quiet); got != ResolutionApplied || err != nil {
		t.Fatal(got, err)
	}
	if turn.State() != TurnAborted || turn.Continuation != nil || turn.OpenCalls != 0 || turn.UnknownCalls != 0 || c.State != CallOutputAvailable {
		t.Errorf("the turn is %s with %d open calls, %+v", turn.State(), turn.OpenCalls, turn.Continuation)
	}
}

// I4: a keyed call is not started again under a key that its tool may have
// forgotten while it was queued, and the row does not claim that it did not
// run.
func TestI4AKeyIsNotUsedBeyondItsRetention(t *testing.T) {
	t.Parallel()
	turn, c := running(t, EffectKeyed)
	turn.LoseLease(c, start.Add(time.Minute))
	if c.Run != RunQueued {
		t.Fatal(c.Run)
	}
	err := turn.Claim(c, Claim{Token: "second", Lease: time.Minute, Digest: []byte("d")}, start.Add(time.Hour))
	if !errors.Is(err, ErrNotClaimable) || c.Run != RunFailed || c.Fence != 1 || !strings.Contains(c.ErrorText, "may have taken effect") {
		t.Errorf("%v: %s, fence %d, %q", err, c.Run, c.Fence, c.ErrorText)
	}
	turn, c = running(t, EffectKeyed)
	if err := turn.Finish(c, 1, "token", Result{Kind: ResultNothingSent}, start); err != nil || c.Run != RunQueued {
		t.Fatal(c.Run, err)
	}
	claimAt(t, turn, start.Add(2*time.Hour)) // no key was used yet
}

// What may repeat a call of unknown outcome is asked about, whatever policy
// allows; what does not run is left alone.
func TestAPossibleDuplicateNeverRunsUnasked(t *testing.T) {
	t.Parallel()
	allowed := &Call{State: CallInputAvailable, AllowedBy: "default"}
	asked := &Call{State: CallApprovalRequested, Approval: &Approval{ID: "a", Policies: []string{"p"}}}
	denied := &Call{State: CallOutputDenied}
	refused := &Call{State: CallOutputError}
	for _, c := range []*Call{allowed, asked, denied, refused} {
		c.SuspectDuplicate("c0")
	}
	if allowed.State != CallApprovalRequested || allowed.AllowedBy != "" || allowed.Approval == nil || allowed.approved() || allowed.DuplicateOf != "c0" {
		t.Errorf("an allowed one: %+v", allowed)
	}
	if asked.DuplicateOf != "c0" || asked.Approval.ID != "a" || asked.Approval.Policies[0] != "p" {
		t.Errorf("one that is asked about: %+v", asked)
	}
	if denied.DuplicateOf != "" || refused.DuplicateOf != "" {
		t.Error("one that does not run is marked")
	}
}
