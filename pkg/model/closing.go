package model

import "time"

// End ends the turn at once: open cards are closed, what has not started is
// stopped and never has an effect (I6), what has started runs on and its
// result is recorded. An ended turn makes no continuation (I2). It reports
// whether anything changed: a turn that is over is left alone.
func (t *Turn) End(state TurnState, why Outcome, text string, now time.Time) bool {
	if t.State().Ended() {
		return false
	}
	for _, c := range t.Calls {
		t.close(c, why, text, now)
	}
	t.Ended, t.EndReason, t.Changed = state, string(why), true
	if state == TurnError {
		t.EndReason = text
	}
	t.Streaming, t.Live, t.Hold, t.Queued = false, nil, nil, false
	if c := t.Continuation; c != nil {
		t.moveContinuation(ContinuationSuperseded)
	}
	t.audit(AuditRecord{At: now, Action: "turn." + string(state), Detail: text})
	t.settle(now)
	return true
}

// close takes a call that has not started out of the game.
func (t *Turn) close(c *Call, why Outcome, text string, now time.Time) {
	switch {
	case c.State == CallApprovalRequested:
		t.closeApproval(c, why, text, now)
	case c.Run == RunQueued || c.Run == RunNone && !c.State.Settled():
		t.Stop(c, text, now)
	}
}

// closeApproval ends an open approval by something other than a person's
// verdict; the part is denied with a fixed text and never shown as a
// person's denial.
func (t *Turn) closeApproval(c *Call, why Outcome, text string, now time.Time) {
	a := c.Approval
	t.moveApproval(c, ApprovalState(why))
	a.Reason, a.DecidedAt = text, now
	t.moveCall(c, CallOutputDenied)
	c.Outcome = why
	t.audit(AuditRecord{At: now, Action: "approval." + string(why), Call: c.ID, Approval: a.ID, Detail: text, Digest: c.Digest})
}

// The fixed texts with which the model is told what closed a card.
const (
	TextExpired    = "Nobody answered before the deadline. The tool did not run."
	TextLapsed     = "The caller that waited for the answer went away. The tool did not run."
	TextCancelled  = "The turn was cancelled. The tool did not run."
	TextSuperseded = "A newer message took the turn's place. The tool did not run."
)

// Expire closes a card whose deadline has passed. It re-checks under the
// lock, and reports whether it closed it.
func (t *Turn) Expire(c *Call, now time.Time) bool {
	if c.State != CallApprovalRequested || now.Before(c.Approval.ExpiresAt) {
		return false
	}
	t.closeApproval(c, OutcomeExpired, TextExpired, now)
	t.settle(now)
	return true
}

// Release lets a queued reply be given, now that its turn has come.
func (t *Turn) Release(now time.Time) bool {
	if !t.Queued || t.Continuation == nil {
		return false
	}
	t.Queued, t.Changed = false, true
	t.Continuation.ReadyAt, t.Continuation.Changed = now, true // it may go to its sink now
	return true
}

// Lapse answers for a holder whose lease has run out: deny closes the open
// cards, stops queued calls of the caller and lets the continuation go to its
// sink; park makes the turn an ordinary one.
func (t *Turn) Lapse(now time.Time) bool {
	if t.Hold == nil || now.Before(t.Hold.Until) {
		return false
	}
	deny := t.Hold.OnLapse == LapseDeny
	t.Hold, t.Changed = nil, true
	if t.Continuation != nil {
		t.Continuation.Changed = true // it may go to its sink now
	}
	if deny {
		for _, c := range t.Calls {
			if c.State == CallApprovalRequested || c.Tool.Executor == ExecutorCaller && (c.Run == RunQueued || c.Run == RunNone) {
				t.close(c, OutcomeLapsed, TextLapsed, now)
			}
		}
	}
	t.settle(now)
	return true
}
