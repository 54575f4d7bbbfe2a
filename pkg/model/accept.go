package model

import "time"

// Acceptable tells whether the turn's continuation can be accepted, and
// changes nothing. Errors: [ErrContinuationAccepted], [ErrContinuationEnded],
// [ErrTurnOpen] while calls are still open or the reply is queued, [ErrTurnEnded] for a turn without
// calls that asks for no reply, which nothing continues.
func (t *Turn) Acceptable() error {
	c := t.Continuation
	switch {
	case t.Ended != "":
		return ErrContinuationEnded
	case c == nil && t.State().Ended():
		return ErrTurnEnded
	case c == nil, t.Queued:
		return ErrTurnOpen
	case c.State == ContinuationAccepted:
		return ErrContinuationAccepted
	case c.State == ContinuationSuperseded:
		return ErrContinuationEnded
	}
	return nil
}

// Accept gives the turn's continuation to the turn that goes on from it.
// Exactly one wins (I2). Errors: as [Turn.Acceptable].
func (t *Turn) Accept(by TurnID, now time.Time) error {
	if err := t.Acceptable(); err != nil {
		return err
	}
	t.moveContinuation(ContinuationAccepted)
	t.Continuation.AcceptedBy = by
	t.Hold = nil
	t.settle(now)
	return nil
}

// Return makes the continuation ready again after the live turn that had
// accepted it died without a committed call.
func (t *Turn) Return(from TurnID, now time.Time) bool {
	return t.takeBack(from, ContinuationReady, now)
}

// FailAnswer makes the continuation failed after the live turn that had
// accepted it was abandoned without a committed call: a person must look.
func (t *Turn) FailAnswer(from TurnID, now time.Time) bool {
	if !t.takeBack(from, ContinuationFailed, now) {
		return false
	}
	t.audit(AuditRecord{At: now, Action: "continuation.failed"})
	return true
}

// takeBack takes the continuation back from the turn that had accepted it.
func (t *Turn) takeBack(from TurnID, to ContinuationState, now time.Time) bool {
	c := t.Continuation
	if t.Ended != "" || c == nil || c.State != ContinuationAccepted || c.AcceptedBy != from {
		return false
	}
	t.moveContinuation(to)
	c.AcceptedBy, c.ReadyAt = "", now
	c.Generation++
	return true
}

// Begin settles a turn that was just made, in the commit that registers it.
func (t *Turn) Begin(now time.Time) {
	t.Changed = true
	t.settle(now)
}

// GiveUp ends a delivery that was tried for a day: a person must look.
func (t *Turn) GiveUp(now time.Time) bool {
	c := t.Continuation
	if t.Hold != nil || t.Queued || c == nil || now.Before(c.ReadyAt.Add(DeadLetterAfter)) ||
		c.State != ContinuationReady && c.State != ContinuationDispatched {
		return false
	}
	t.moveContinuation(ContinuationFailed)
	t.audit(AuditRecord{At: now, Action: "continuation.failed"})
	return true
}

// Redrive makes a failed continuation ready again, from now on for another
// day. Errors: [ErrNotFound] when there is none, [ErrContinuationAccepted],
// [ErrContinuationEnded].
func (t *Turn) Redrive(actor, channel string, now time.Time) error {
	c := t.Continuation
	switch {
	case c == nil:
		return ErrNotFound
	case c.State == ContinuationAccepted:
		return ErrContinuationAccepted
	case c.State == ContinuationSuperseded:
		return ErrContinuationEnded
	case c.State == ContinuationReady:
		return nil
	}
	t.moveContinuation(ContinuationReady)
	c.ReadyAt = now
	t.audit(AuditRecord{At: now, Actor: actor, Channel: channel, Action: "continuation.redriven"})
	return nil
}
