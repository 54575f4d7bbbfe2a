package model

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// book keeps what the rows and the ledger remember of an event: attempts,
// the topic's counters, completed followers. It says what does not add up.
func (w *small) book(before *small) string {
	if err := w.turn.Err(); err != nil {
		return err.Error()
	}
	for _, a := range w.turn.Records.Attempts {
		e := &w.ledger[w.turn.Call(a.Call).Part-1]
		switch {
		case a.Started && e.open:
			return fmt.Sprintf("a second open attempt of %s (I4)", a.Call)
		case a.Started:
			e.open, e.unproven, e.doubtful = true, e.unproven || e.doubtful, false
		default:
			e.open, e.doubtful = false, a.Outcome != string(ResultNothingSent)
		}
	}
	if w.turn.Changed {
		w.topic.Add(before.turn.Standing(), -1)
		w.topic.Add(w.turn.Standing(), 1)
	}
	if w.next != nil && w.next.State() == TurnDone && (before.next == nil || before.next.ID != w.next.ID || before.next.State() != TurnDone) {
		w.completed++
	}
	return ""
}

// check holds an event against the invariants; "" is well.
func check(before, after *small, err error) string {
	for _, rule := range []func(*small, *small) string{
		unmarked, checkCounters, checkContinuation, checkFollowers,
	} {
		if wrong := rule(before, after); wrong != "" {
			return wrong
		}
	}
	for i := range after.turn.Calls {
		for _, rule := range []func(before, after *small, i int) string{checkVerdict, checkRun, checkEffects, checkTold} {
			if wrong := rule(before, after, i); wrong != "" {
				return fmt.Sprintf("%s: call %d", wrong, i)
			}
		}
	}
	// Refusals that write: a stop, an expiry, a note that a result came too late.
	writes := errors.Is(err, ErrNotClaimable) || errors.Is(err, ErrApprovalClosed) || errors.Is(err, ErrResultConflict)
	if err != nil && !writes && (after.turn.Changed || errors.Is(err, errAgain)) {
		return "refused, and changed all the same: " + err.Error()
	}
	return ""
}

// unmarked: whatever differs is marked as changed, or it would not be written.
func unmarked(before, after *small) string {
	t := after.turn
	if !t.Changed && turnKey(t) != turnKey(before.turn) {
		return "the turn changed and is not marked"
	}
	for i, c := range t.Calls {
		was := before.turn.Calls[i]
		if !c.Changed && callKey(c) != callKey(was) {
			return "a call changed and is not marked"
		}
		if a := c.Approval; a != nil && !a.Changed && a.State != was.Approval.State {
			return "an approval changed and is not marked"
		}
	}
	if k := t.Continuation; k != nil && !k.Changed && continuationKey(k) != continuationKey(before.turn.Continuation) {
		return "the continuation changed and is not marked"
	}
	return ""
}

// checkCounters: the counters of turn and topic are what is there.
func checkCounters(_, after *small) string {
	t, approvals, open, unknown := after.turn, 0, 0, 0
	for _, c := range t.Calls {
		if c.State == CallApprovalRequested {
			approvals++
		}
		if !c.State.Settled() {
			open++
			if c.Run == RunUnknown {
				unknown++
			}
		}
	}
	if approvals != t.OpenApprovals || open != t.OpenCalls || unknown != t.UnknownCalls {
		return fmt.Sprintf("counters of the turn: %d, %d, %d, and there are %d, %d, %d",
			t.OpenApprovals, t.OpenCalls, t.UnknownCalls, approvals, open, unknown)
	}
	var topic TopicCounters
	topic.Add(t.Standing(), 1)
	if topic != after.topic {
		return fmt.Sprintf("counters of the topic: %+v, and there are %+v", after.topic, topic)
	}
	return ""
}

// checkContinuation (I2): it is there exactly when everything is settled, is
// never taken back but with its turn, and an ended turn gets none.
func checkContinuation(before, after *small) string {
	t, k, was := after.turn, after.turn.Continuation, before.turn.Continuation
	due := t.Ended == "" && !t.Streaming && t.OpenCalls == 0
	switch {
	case due && (k == nil || k.State == ContinuationSuperseded):
		return "everything is settled and there is no continuation (I2)"
	case !due && k != nil && k.State != ContinuationSuperseded:
		return "a continuation before everything is settled (I2)"
	case t.Ended != "" && was == nil && k != nil:
		return "an ended turn made a continuation (I2)"
	case before.turn.Ended != "" && t.Ended != before.turn.Ended:
		return "an ended turn came back (I2)"
	case was != nil && k == nil:
		return "the continuation is gone (I2)"
	case was != nil && k.Generation < was.Generation:
		return "a generation went back (I2)"
	}
	return ""
}

// checkFollowers (I2): one turn at a time has the continuation, and at most
// one ever completes.
func checkFollowers(before, after *small) string {
	k := after.turn.Continuation
	switch {
	case after.completed > 1:
		return "two turns completed after one (I2)"
	case before.next != nil && after.next.ID != before.next.ID && !before.next.Discarded:
		return "a second turn accepted (I2)"
	case k != nil && (k.State == ContinuationAccepted) != (k.AcceptedBy != ""):
		return "accepted by nobody, or not accepted by somebody (I2)"
	case k != nil && k.State == ContinuationAccepted && (k.AcceptedBy != after.next.ID || after.next.Discarded):
		return "accepted by a turn that is not there (I2)"
	}
	return ""
}

// checkVerdict (I1, I6): a decided call stays decided, and a denied one has
// no run and no effect.
func checkVerdict(before, after *small, i int) string {
	c, was := after.turn.Calls[i], before.turn.Calls[i]
	if was.Resolution != nil && c.Resolution.Outcome != was.Resolution.Outcome {
		return "a resolution was changed (I4)"
	}
	if was.State.Settled() && c.State != was.State {
		return "a settled call changed its state (I1)"
	}
	if c.State == CallOutputDenied && (c.Run != RunNone || c.Fence != 0 || after.ledger[i].effects > 0) {
		return "a denied call ran (I6)"
	}
	if c.Approval == nil {
		return ""
	}
	switch a := c.Approval.State; {
	case was.Approval.State != ApprovalRequested && a != was.Approval.State:
		return "a verdict was changed (I1)"
	case (a == ApprovalRequested) != (c.State == CallApprovalRequested):
		return "approval and call disagree (I1)"
	case a == ApprovalApproved && c.State == CallOutputDenied, a != ApprovalApproved && a != ApprovalRequested && c.State != CallOutputDenied:
		return "approval and call disagree (I1)"
	}
	return ""
}

// checkRun (I4, I5): attempts are on the call and bounded, a run has what
// allows it, and what may run is queued.
func checkRun(before, after *small, i int) string {
	c, was, e := after.turn.Calls[i], before.turn.Calls[i], after.ledger[i]
	t := after.turn
	switch {
	case e.open != (c.Run == RunStarted):
		return "an attempt is open and its run is not started, or the other way round (I4)"
	case int(c.Fence) > c.Tool.MaxAttempts:
		return "more attempts than allowed (I4)"
	case c.Fence > was.Fence && c.Tool.Effect == EffectUnsafe && e.unproven:
		return "an unsafe call was started again (I4)"
	case c.Run != RunNone && !after.allowed(i):
		return "a run that nobody allowed (I5)"
	case t.Ended != "" && (c.Run == RunQueued || c.Fence > was.Fence):
		return "an ended turn has something to run (I6)"
	case t.Ended == "" && c.Run == RunNone && c.approved() && !t.Streaming && t.OpenApprovals == 0:
		return "what may run is not queued (I8)"
	case c.Run == RunNone && c.Fence > 0:
		return "an attempt without a run (I4)"
	case e.late:
		return "a key was used again after its retention (I4)"
	}
	return ""
}

// allowed tells whether people or a policy allowed exactly what stands.
func (w *small) allowed(i int) bool {
	c := w.turn.Calls[i]
	if c.Approval == nil {
		return c.AllowedBy != ""
	}
	n := map[string]bool{}
	for _, d := range w.past {
		if d.Call == c.ID && d.Approved && bytes.Equal(d.Digest, c.Digest) {
			n[d.By] = true
		}
	}
	return c.Approval.State == ApprovalApproved && len(n) >= c.Approval.Rule.Quorum
}

// checkEffects (I4, I6): an unsafe tool has its effect once at most, no tool
// more often than it was started, and none of what was stopped unstarted.
func checkEffects(_, after *small, i int) string {
	c, e := after.turn.Calls[i], after.ledger[i]
	switch {
	case c.Tool.Effect == EffectUnsafe && e.effects > 1:
		return "an unsafe tool had its effect twice (I4)"
	case e.effects > int(c.Fence):
		return "an effect without an attempt (I4)"
	case c.Run == RunStopped && e.effects > 0:
		return "a call that was stopped had an effect (I6)"
	case c.Run == RunSucceeded && e.effects == 0:
		return "a call succeeded without an effect (I4)"
	}
	return ""
}

// checkTold: nobody is told that a tool did not run which may have run.
func checkTold(_, after *small, i int) string {
	c, e := after.turn.Calls[i], after.ledger[i]
	if c.State.Settled() && (e.unproven || e.doubtful) && !strings.Contains(c.ErrorText, "may have taken effect") &&
		(c.Run == RunStopped || strings.Contains(c.ErrorText, "did not run")) {
		return "told that it did not run, and it may have: " + c.ErrorText
	}
	if c.Run == RunUnknown && c.Outcome != OutcomeUnknown {
		return "an unknown outcome that is not shown"
	}
	return ""
}
