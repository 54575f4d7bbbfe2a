package model

import "time"

// CheckLive guards what a live turn's owner does by its fence and token.
// Errors: [ErrTurnEnded] when it is not live any more, [ErrFenceLost].
func (t *Turn) CheckLive(fence int64, token string) error {
	switch {
	case t.Live == nil:
		return ErrTurnEnded
	case t.Live.Fence != fence || t.Live.Token != token:
		return ErrFenceLost
	}
	return nil
}

// Extend adds calls to a live turn while it streams, before anybody is shown
// them (I7). What a policy allows is queued at once; the continuation waits
// for the stream's end. The lease starts anew.
func (t *Turn) Extend(calls []*Call, lease time.Duration, now time.Time) {
	t.Calls = append(t.Calls, calls...)
	t.Live.LeaseUntil, t.Changed = now.Add(lease), true
	t.settle(now)
}

// Finalize ends a live turn's stream: nothing streams any more, and what its
// calls wait for decides what it is now.
func (t *Turn) Finalize(now time.Time) {
	t.Streaming, t.Live, t.Changed = false, nil, true
	t.settle(now)
}

// Die closes a live turn whose lease has run out, with the calls that it
// committed. Without any it is discarded, and what it continued must be
// returned. It re-checks under the lock.
func (t *Turn) Die(now time.Time) bool {
	if !t.Streaming || t.Live == nil || now.Before(t.Live.LeaseUntil) {
		return false
	}
	t.breakOff("the lease of its stream ran out", AuditRecord{At: now, Action: "turn.lease-lost"})
	return true
}

// Abandon closes a live turn whose owner could not have it answered, with the
// calls that it committed. Without any it is discarded, and what it continued
// has failed.
func (t *Turn) Abandon(reason, actor, channel string, now time.Time) {
	t.breakOff(reason, AuditRecord{At: now, Actor: actor, Channel: channel, Action: "turn.abandoned", Detail: reason})
}

// breakOff ends the stream of a live turn in the middle.
func (t *Turn) breakOff(reason string, why AuditRecord) {
	t.Streaming, t.Live, t.Changed = false, nil, true
	if len(t.Calls) == 0 {
		t.Discarded = true
		t.Ended, t.EndReason = TurnError, reason
	}
	t.audit(why)
	t.settle(why.At)
}
