package model

import "fmt"

// Machine names one of the state machines.
type Machine string

// The four machines of [Transitions].
const (
	MachineCall         Machine = "call"
	MachineApproval     Machine = "approval"
	MachineRun          Machine = "run"
	MachineContinuation Machine = "continuation"
)

// Transition is one legal edge. The database has the same ones in its function
// legal_edges, by which triggers refuse every other change of state; a test
// compares the two, pair by pair.
type Transition struct {
	Machine  Machine
	From, To string
}

// Transitions is the one table of legal edges. A run begins as "": not
// queued yet.
var Transitions = concat(
	edges(MachineCall, CallInputStreaming, CallInputAvailable, CallOutputError),
	edges(MachineCall, CallInputAvailable, CallApprovalRequested, CallOutputAvailable, CallOutputError, CallOutputDenied),
	edges(MachineCall, CallApprovalRequested, CallApprovalResponded, CallOutputDenied),
	edges(MachineCall, CallApprovalResponded, CallOutputAvailable, CallOutputError),

	edges(MachineApproval, ApprovalRequested,
		ApprovalApproved, ApprovalDenied, ApprovalExpired, ApprovalLapsed, ApprovalCancelled, ApprovalSuperseded),

	edges(MachineRun, RunNone, RunQueued),
	edges(MachineRun, RunQueued, RunStarted, RunStopped, RunFailed),
	edges(MachineRun, RunStarted, RunSucceeded, RunFailed, RunUnknown, RunQueued),
	edges(MachineRun, RunUnknown, RunSucceeded, RunFailed, RunClosed),

	edges(MachineContinuation, ContinuationReady,
		ContinuationDispatched, ContinuationAccepted, ContinuationFailed, ContinuationSuperseded),
	edges(MachineContinuation, ContinuationDispatched,
		ContinuationReady, ContinuationAccepted, ContinuationFailed, ContinuationSuperseded),
	edges(MachineContinuation, ContinuationFailed, ContinuationReady, ContinuationAccepted, ContinuationSuperseded),
	edges(MachineContinuation, ContinuationAccepted, ContinuationReady, ContinuationFailed),
)

var legal = func() map[Transition]bool {
	set := make(map[Transition]bool, len(Transitions))
	for _, t := range Transitions {
		set[t] = true
	}
	return set
}()

// CheckTransition returns nil for a legal edge and [ErrIllegalTransition]
// for any other, staying in the same state included.
func CheckTransition(m Machine, from, to string) error {
	if legal[Transition{m, from, to}] {
		return nil
	}
	return fmt.Errorf("%s from %q to %q: %w", m, from, to, ErrIllegalTransition)
}

func edges[S ~string](m Machine, from S, to ...S) []Transition {
	var out []Transition
	for _, t := range to {
		out = append(out, Transition{m, string(from), string(t)})
	}
	return out
}

func concat(groups ...[]Transition) []Transition {
	var out []Transition
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}
