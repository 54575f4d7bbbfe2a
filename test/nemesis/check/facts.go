package check

import (
	"fmt"
	"time"

	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/inject"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// Facts is everything that is known of a run when it is at rest.
type Facts struct {
	Rows     rows.All
	Effects  []ledger.Effect
	Requests []ledger.Request
	Ops      []history.Op
	Faults   []inject.Record
	Stalls   []Stall
	Lease    time.Duration
	Begin    time.Time // of the history's clock

	calls    map[string]*rows.Call
	turns    map[string]*rows.Turn
	asked    map[string]*rows.Call // by approval
	attempts map[string][]rows.Attempt
	effects  map[string][]ledger.Effect
	requests map[string][]ledger.Request
}

// Stall is a time in which the machine had no time for the runner, and so
// perhaps for nobody: it explains what a paused process would.
type Stall struct{ From, To time.Duration }

// Violation is something that cannot be.
type Violation struct {
	Invariant string // "I4: at most one effect of an unsafe call"
	Detail    string

	// What it is about; the rest is "".
	Tenant, Topic, Turn, Call, Approval string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s\n    %s\n    tenant %s, topic %s, turn %s, call %s, approval %s",
		v.Invariant, v.Detail, v.Tenant, v.Topic, v.Turn, v.Call, v.Approval)
}

// All does every check, those first that others follow from.
func All(f *Facts) []Violation {
	f.index()
	var all []Violation
	for _, check := range []func(*Facts) []Violation{
		effects, outputs, unsent, acknowledged, refused, verdicts, fences, registered, tenants, continued, answered, superseded, explained, linearizable,
	} {
		all = append(all, check(f)...)
	}
	return all
}

func (f *Facts) index() {
	f.calls, f.turns, f.asked = map[string]*rows.Call{}, map[string]*rows.Turn{}, map[string]*rows.Call{}
	f.attempts = map[string][]rows.Attempt{}
	f.effects, f.requests = map[string][]ledger.Effect{}, map[string][]ledger.Request{}
	for i := range f.Rows.Calls {
		c := &f.Rows.Calls[i]
		f.calls[c.ID] = c
		if c.Approval != "" {
			f.asked[c.Approval] = c
		}
	}
	for i := range f.Rows.Turns {
		f.turns[f.Rows.Turns[i].ID] = &f.Rows.Turns[i]
	}
	for _, a := range f.Rows.Attempts {
		f.attempts[a.Call] = append(f.attempts[a.Call], a)
	}
	for _, e := range f.Effects {
		f.effects[e.Call] = append(f.effects[e.Call], e)
	}
	for _, r := range f.Requests {
		f.requests[r.Call] = append(f.requests[r.Call], r)
	}
}

// about is a violation that concerns a call.
func about(c *rows.Call, invariant, detail string, args ...any) Violation {
	return Violation{invariant, fmt.Sprintf(detail, args...), c.Tenant, c.Topic, c.Turn, c.ID, c.Approval}
}

// of is a violation that concerns a request.
func of(op history.Op, invariant, detail string, args ...any) Violation {
	return Violation{invariant, fmt.Sprintf(detail, args...), op.Tenant, op.Topic, op.Turn, op.Call, op.Approval}
}

// attempt finds one attempt of a call.
func (f *Facts) attempt(call string, fence int64) *rows.Attempt {
	for i, a := range f.attempts[call] {
		if a.Fence == fence {
			return &f.attempts[call][i]
		}
	}
	return nil
}
