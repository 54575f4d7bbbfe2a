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
	Reply     bool // it asks for an answer to its message, which is a person's: it has no calls and no parts

	// Queued is a reply whose turn has not come: nobody is told of it, and
	// nobody can give it, before the turns before it are over.
	Queued bool

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

// settle is what every change ends with: it recounts, queues what may run,
// and makes the continuation in the commit after which the turn is not
// streaming and every call is settled (I2). What asks for a reply is that from
// the beginning.
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
	if !t.Streaming && (t.Reply || len(t.Calls) > 0) && t.OpenCalls == 0 && t.Continuation == nil {
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
