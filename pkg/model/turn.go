package model

import (
	"fmt"
	"time"
)

// TurnState is what a turn waits for, derived: the first that holds.
type TurnState string

// The states of a turn, in the order in which they are tried.
const (
	TurnAborted          TurnState = "aborted"
	TurnError            TurnState = "error"
	TurnStreaming        TurnState = "streaming"
	TurnAwaitingApproval TurnState = "awaiting-approval"
	TurnExecuting        TurnState = "executing"
	TurnNeedsAttention   TurnState = "needs-attention"
	TurnContinuing       TurnState = "continuing"
	TurnDone             TurnState = "done"
)

// Ended tells whether a turn in this state is over and makes nothing more.
func (s TurnState) Ended() bool { return s == TurnAborted || s == TurnError || s == TurnDone }

// Execution says when approved calls are queued.
type Execution string

// When decided: once the turn has no open approval. Eager: each at its own
// decision. What policy allows is queued at registration in both.
const (
	ExecuteWhenDecided Execution = "when-decided"
	ExecuteEager       Execution = "eager"
)

// OnLapse is what becomes of a held turn whose holder is gone.
type OnLapse string

// The answers to a lapsed hold.
const (
	LapseDeny OnLapse = "deny"
	LapsePark OnLapse = "park"
)

// Hold marks a live caller that waits for the answers and goes on by itself.
type Hold struct {
	Lease   time.Duration
	Until   time.Time
	OnLapse OnLapse
}

// Live is the lease of a turn that is streaming.
type Live struct {
	Fence      int64
	Token      string
	LeaseUntil time.Time
}

// Turn is one step of the model with everything that its transactions lock
// and change together. Its methods are the rules of Countersign: each takes
// the database's time, changes the turn and its calls in memory, and records
// what is to be written beside the rows. They assume that the caller holds
// the turn's row lock and has read the calls after it.
type Turn struct {
	Tenant  TenantID
	ID      TurnID
	Topic   TopicID
	Message MessageID
	Step    int // the turn's place within its message, from 0

	Streaming bool
	Ended     TurnState // aborted or error; "" while it runs or is done
	EndReason string
	Discarded bool // a live turn that died without a committed call

	Execution   Execution
	RequestedBy string
	Continues   TurnID // the turn whose continuation this one accepted, or ""
	Sink        Sink
	Hold        *Hold
	Live        *Live
	Traceparent string

	OpenApprovals, OpenCalls, UnknownCalls int

	Calls        []*Call
	Continuation *Continuation

	Records Records
	Changed bool
	err     error
}

// Records are the rows that a transaction appends beside what it changes.
type Records struct {
	Decisions []DecisionRecord
	Attempts  []AttemptRecord
	Audit     []AuditRecord
}

// AttemptRecord opens (Started) or closes an attempt's row.
type AttemptRecord struct {
	Call    CallID
	Fence   int64
	Token   string
	Worker  string
	Started bool
	At      time.Time
	Outcome string
	Detail  string
}

// AuditRecord is one line of the audit: who, what, when, through which
// channel, under which rule (I10).
type AuditRecord struct {
	At       time.Time
	Actor    string
	Action   string
	Channel  string
	Topic    TopicID
	Turn     TurnID
	Call     CallID
	Approval ApprovalID
	Detail   string
	Digest   []byte
}

// TurnStanding is what a turn counts as in its topic.
type TurnStanding struct {
	State              TurnState
	ContinuationFailed bool
}

// Standing is what the turn counts as now.
func (t *Turn) Standing() TurnStanding {
	return TurnStanding{t.State(), t.Continuation != nil && t.Continuation.State == ContinuationFailed}
}

// State derives the turn's state from its counters and its continuation.
func (t *Turn) State() TurnState {
	switch c := t.Continuation; {
	case t.Ended != "":
		return t.Ended
	case t.Streaming:
		return TurnStreaming
	case t.OpenApprovals > 0:
		return TurnAwaitingApproval
	case t.OpenCalls > t.UnknownCalls:
		return TurnExecuting
	case t.UnknownCalls > 0:
		return TurnNeedsAttention
	case c != nil && c.State != ContinuationAccepted:
		return TurnContinuing
	}
	return TurnDone
}

// Err is the first illegal edge that was tried; with it nothing of the turn
// may be written.
func (t *Turn) Err() error { return t.err }

// Call finds a call of the turn, or nil.
func (t *Turn) Call(id CallID) *Call {
	for _, c := range t.Calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Asked finds the call about which an approval asks, or nil.
func (t *Turn) Asked(id ApprovalID) *Call {
	for _, c := range t.Calls {
		if c.Approval != nil && c.Approval.ID == id {
			return c
		}
	}
	return nil
}

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
	t.Streaming, t.Live, t.Hold = false, nil, nil
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

// Renew moves a hold's lease on, and reports whether there is one.
func (t *Turn) Renew(now time.Time) bool {
	if t.Hold == nil {
		return false
	}
	t.Hold.Until, t.Changed = now.Add(t.Hold.Lease), true
	return true
}

// settle is what every change ends with: it recounts, queues what may run,
// and makes the continuation in the commit after which the turn is not
// streaming and every call is settled (I2).
func (t *Turn) settle(now time.Time) {
	t.count()
	if t.Ended != "" {
		return
	}
	for _, c := range t.Calls {
		if c.Run == RunNone && c.approved() && t.due(c) {
			t.queue(c, now)
		}
	}
	if !t.Streaming && len(t.Calls) > 0 && t.OpenCalls == 0 && t.Continuation == nil {
		t.Continuation = &Continuation{State: ContinuationReady, ReadyAt: now, Changed: true}
		t.Changed = true
	}
}

func (t *Turn) due(c *Call) bool {
	allowed := c.State == CallInputAvailable
	return allowed || t.Execution == ExecuteEager || !t.Streaming && t.OpenApprovals == 0
}

func (t *Turn) queue(c *Call, now time.Time) {
	t.moveRun(c, RunQueued)
	c.QueuedAt, c.NotBefore = now, now
}

func (t *Turn) count() {
	approvals, open, unknown := 0, 0, 0
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
		t.OpenApprovals, t.OpenCalls, t.UnknownCalls, t.Changed = approvals, open, unknown, true
	}
}

// audit completes a record with what the turn knows.
func (t *Turn) audit(r AuditRecord) {
	r.Topic, r.Turn = t.Topic, t.ID
	if r.Actor == "" {
		r.Actor = "countersign"
	}
	t.Records.Audit = append(t.Records.Audit, r)
}

// The four moves are the only places that assign a state; each goes through
// the table of legal edges.

func (t *Turn) moveCall(c *Call, to CallState) {
	t.check(MachineCall, string(c.State), string(to))
	c.State = to
	t.touch(c)
}

func (t *Turn) moveRun(c *Call, to RunState) {
	t.check(MachineRun, string(c.Run), string(to))
	c.Run = to
	t.touch(c)
}

func (t *Turn) moveApproval(c *Call, to ApprovalState) {
	t.check(MachineApproval, string(c.Approval.State), string(to))
	c.Approval.State, c.Approval.Changed = to, true
	t.touch(c)
}

func (t *Turn) moveContinuation(to ContinuationState) {
	t.check(MachineContinuation, string(t.Continuation.State), string(to))
	t.Continuation.State = to
	t.Continuation.Changed, t.Changed = true, true
}

func (t *Turn) touch(c *Call) { c.Changed, t.Changed = true, true }

func (t *Turn) check(m Machine, from, to string) {
	if err := CheckTransition(m, from, to); err != nil && t.err == nil {
		t.err = fmt.Errorf("turn %s: %w", t.ID, err)
	}
}

// AuditRegistration records who registered the turn and what the policies
// said about each call of it.
func (t *Turn) AuditRegistration(actor, channel string, now time.Time) {
	if len(t.Calls) == 0 {
		t.audit(AuditRecord{At: now, Actor: actor, Action: "turn.registered", Channel: channel})
	}
	t.AuditCalls(actor, channel, t.Calls, now)
}

// AuditCalls records what the policies said about calls that were just made.
// A call about which somebody is asked is in its approval's own records.
func (t *Turn) AuditCalls(actor, channel string, calls []*Call, now time.Time) {
	for _, c := range calls {
		r := AuditRecord{At: now, Actor: actor, Channel: channel, Call: c.ID, Digest: c.Digest}
		switch {
		case c.AllowedBy != "":
			r.Action, r.Detail = "call.allowed", c.AllowedBy
		case c.Approval != nil && c.Approval.State == ApprovalDenied:
			r.Action, r.Detail, r.Approval = "call.denied", c.Approval.DecidedBy, c.Approval.ID
		case c.Approval != nil:
			r.Action, r.Approval = "approval.requested", c.Approval.ID
		default:
			r.Action, r.Detail = "call.refused", c.ErrorText
		}
		t.audit(r)
	}
}

// AuditCancel records who ended the turn.
func (t *Turn) AuditCancel(actor, channel string, now time.Time) {
	t.audit(AuditRecord{At: now, Actor: actor, Action: "turn.cancelled", Channel: channel})
}
