package check

import (
	"fmt"

	"github.com/countersign/countersign/test/nemesis/rows"
)

// continued: I2. At rest each settled turn was continued exactly once, and one
// that was ended was not.
func continued(f *Facts) (out []Violation) {
	const invariant = "I2: each settled turn is continued exactly once"
	next := map[string][]string{}
	for _, t := range f.Rows.Turns {
		if t.Continues != "" && !t.Discarded {
			next[t.Continues] = append(next[t.Continues], t.ID)
		}
	}
	for i := range f.Rows.Turns {
		t := &f.Rows.Turns[i]
		settled := t.Ended == "" && !t.Streaming && (t.Calls > 0 || t.Reply) && t.Open == 0
		say := func(detail string, args ...any) {
			out = append(out, Violation{Invariant: invariant, Detail: fmt.Sprintf(detail, args...), Tenant: t.Tenant, Topic: t.Topic, Turn: t.ID})
		}
		switch following := next[t.ID]; {
		case len(following) > 1:
			say("turns %v all continue it", following)
		case settled && t.Continuation != "accepted":
			say("its continuation is %q", t.Continuation)
		case settled && (len(following) != 1 || following[0] != t.AcceptedBy):
			say("it was accepted by %q, and %v continues it", t.AcceptedBy, following)
		case !settled && t.Continuation != "" && t.Continuation != "superseded" && t.Ended == "":
			say("it has a continuation (%s) with %d of %d calls open", t.Continuation, t.Open, t.Calls)
		case t.Ended != "" && t.Continuation != "" && t.Continuation != "superseded":
			say("it was ended (%s) and its continuation is %s", t.Ended, t.Continuation)
		}
	}
	return out
}

// explained: I4. A call whose outcome nobody knows has a cause: its request
// arrived, or something happened to its worker, to the way between them or to
// the database. An outcome that is lost without a fault was thrown away.
func explained(f *Facts) (out []Violation) {
	for i := range f.Rows.Calls {
		c := &f.Rows.Calls[i]
		if c.Executor != "worker" {
			continue // callers go away as they like
		}
		for _, a := range f.attempts[c.ID] {
			if a.Outcome == "lease-lost" && !f.arrived(a) && !f.disturbed(a) {
				out = append(out, about(c, "I4: an outcome is unknown only where it cannot be known",
					"attempt %d of %s was lost with its lease, nothing of it arrived, and no fault explains it", a.Fence, a.Worker))
			}
		}
	}
	return out
}

func (f *Facts) arrived(a rows.Attempt) bool {
	for _, r := range f.requests[a.Call] {
		if r.Attempt == a.Fence {
			return true
		}
	}
	return false
}

// disturbed tells whether a fault that can keep a worker from reporting was
// under way while the attempt was: one that lasts longer than reporting is
// tried again, or ends the process.
func (f *Facts) disturbed(a rows.Attempt) bool {
	if a.FinishedAt == nil {
		return true
	}
	from, to := a.StartedAt.Sub(f.Begin)-f.Lease, a.FinishedAt.Sub(f.Begin)
	for _, s := range f.Stalls {
		if s.To >= from && s.From <= to {
			return true
		}
	}
	for _, r := range f.Faults {
		if r.Ended >= from && r.Began <= to && keepsFromReporting(r.Kind, r.Target) {
			return true
		}
	}
	return false
}
