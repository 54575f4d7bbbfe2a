package check

import (
	"slices"

	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// acknowledged: I3. Every decision that was acknowledged is in the rows, as it
// was acknowledged.
func acknowledged(f *Facts) (out []Violation) {
	const invariant = "I3: an acknowledged decision is in the rows"
	recorded := f.decisions()
	for _, op := range f.Ops {
		if op.Kind != history.Decide || op.Result != history.OK {
			continue
		}
		c, d := f.asked[op.Approval], recorded[op.Decision]
		switch {
		case c == nil:
			out = append(out, of(op, invariant, "its approval does not exist"))
		case op.Answer == "applied" && d == nil:
			out = append(out, of(op, invariant, "decision %s was answered as applied and is in no row", op.Decision))
		case d != nil && (d.Approved != op.Approved || d.By != op.By || d.Approval != op.Approval):
			out = append(out, of(op, invariant, "decision %s is recorded as approved=%v by %s of %s", op.Decision, d.Approved, d.By, d.Approval))
		case op.Answer == "already-applied" && d != nil: // recorded before, whatever the verdict became
		case op.Answer != "recorded" && c.Verdict != verdict(op.Approved):
			out = append(out, of(op, invariant, "it was answered as %s, %s; the verdict is %s", op.Answer, verdict(op.Approved), c.Verdict))
		case op.Answer == "recorded" && !slices.ContainsFunc(f.Rows.Decisions, func(d rows.Decision) bool {
			return d.Approval == op.Approval && d.By == op.By && d.Approved
		}):
			out = append(out, of(op, invariant, "the answer of %s was recorded and is in no row", op.By))
		}
	}
	return out
}

func (f *Facts) decisions() map[string]*rows.Decision {
	out := map[string]*rows.Decision{}
	for i := range f.Rows.Decisions {
		out[f.Rows.Decisions[i].ID] = &f.Rows.Decisions[i]
	}
	return out
}

func verdict(approved bool) string {
	if approved {
		return "approved"
	}
	return "denied"
}

// refused: a request that was refused whenever it was made left nothing.
func refused(f *Facts) (out []Violation) {
	maybe, refusals := map[string]bool{}, map[string]history.Op{}
	for _, op := range f.Ops {
		id := string(op.Kind) + " " + op.Decision + op.Message
		switch {
		case op.Kind != history.Decide && op.Kind != history.Say && (op.Kind != history.Register || op.Message == ""):
		case op.Result == history.Fail:
			refusals[id] = op
		default:
			maybe[id] = true
		}
	}
	recorded, registered := f.decisions(), map[string]bool{}
	for _, t := range f.Rows.Turns {
		registered[t.Message] = true
	}
	for _, m := range f.Rows.Messages {
		registered[m.ID] = true
	}
	for id, op := range refusals {
		if maybe[id] {
			continue
		}
		if op.Kind == history.Decide && recorded[op.Decision] != nil || op.Kind != history.Decide && registered[op.Message] {
			out = append(out, of(op, "I3: what was refused is not done", "%s %s%s was refused as %s whenever it was asked, and is in the rows",
				op.Kind, op.Decision, op.Message, op.Problem))
		}
	}
	return out
}

// verdicts: I1. Whoever was told that a card is closed was told its verdict.
func verdicts(f *Facts) (out []Violation) {
	for _, op := range f.Ops {
		c := f.asked[op.Approval]
		if c == nil || op.State == "" || op.State == "requested" || op.Kind != history.Decide && op.Kind != history.Card {
			continue
		}
		if op.State != c.Verdict {
			out = append(out, of(op, "I1: the first committed verdict is final", "somebody was told that the card is %s; the row says %s", op.State, c.Verdict))
		}
	}
	return out
}

// fences: a fence is given to one claim, and a result of a fence is taken only
// as long as no later one was given.
func fences(f *Facts) (out []Violation) {
	type fence struct {
		call string
		n    int64
	}
	given := map[fence]history.Op{}
	for _, op := range f.Ops {
		if op.Kind != history.Claim || op.Result != history.OK {
			continue
		}
		key := fence{op.Call, op.Fence}
		if before, known := given[key]; known && before.Token != op.Token {
			out = append(out, of(op, "I4: a claim is one process's", "fence %d was given to %s and to %s", op.Fence, before.Token, op.Token))
		}
		given[key] = op
		if f.attempt(op.Call, op.Fence) == nil {
			out = append(out, of(op, "I4: every attempt is on the call", "fence %d was given and is in no row", op.Fence))
		}
	}
	for _, op := range f.Ops {
		if op.Kind != history.Report || op.Result != history.OK {
			continue
		}
		for key, later := range given {
			if key.call == op.Call && key.n > op.Fence && later.Returned < op.Invoked {
				out = append(out, of(op, "I4: a result is guarded by its own fence", "a result of fence %d was taken after fence %d had been given", op.Fence, key.n))
			}
		}
	}
	return out
}

// registered: what was answered as registered is there, once.
func registered(f *Facts) (out []Violation) {
	const invariant = "I3: an acknowledged turn is in the rows"
	first := map[string]history.Op{}
	for _, op := range f.Ops {
		if op.Result != history.OK || op.Kind != history.Register && op.Kind != history.Finish {
			continue
		}
		t := f.turns[op.Turn]
		switch {
		case t == nil || t.Tenant != op.Tenant || t.Topic != op.Topic:
			out = append(out, of(op, invariant, "there is no such turn of this topic"))
		case t.Discarded:
			out = append(out, of(op, invariant, "the turn was acknowledged and then discarded"))
		case op.Continues != "" && t.Continues != op.Continues:
			out = append(out, of(op, invariant, "it was answered as continuing %s, and continues %q", op.Continues, t.Continues))
		}
		if op.Message == "" || op.Kind != history.Register {
			continue
		}
		if before, known := first[op.Message]; known && before.Turn != op.Turn {
			out = append(out, of(op, "I2: the same registration is the same turn", "message %s made turn %s and turn %s", op.Message, before.Turn, op.Turn))
		}
		first[op.Message] = op
	}
	return out
}

// tenants: I9. Nobody was shown what is another tenant's.
func tenants(f *Facts) (out []Violation) {
	for _, op := range f.Ops {
		if op.Kind == history.Foreign {
			if op.Result == history.OK || op.Result == history.Fail && op.Problem != "not-found" && op.Problem != unreached {
				out = append(out, of(op, "I9: no tenant sees another's", "a card of another tenant was answered with %d %s", op.Status, op.Problem))
			}
			continue
		}
		if t := f.turns[op.Turn]; t != nil && t.Tenant != op.Tenant {
			out = append(out, of(op, "I9: no tenant sees another's", "its turn is of tenant %s", t.Tenant))
		}
		if c := f.calls[op.Call]; c != nil && c.Tenant != op.Tenant {
			out = append(out, of(op, "I9: no tenant sees another's", "its call is of tenant %s", c.Tenant))
		}
	}
	return out
}

// unreached is the problem of a request that never left.
const unreached = "unreached"
