package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// linearizable: I1. The decisions about each approval, and what was read of
// it, can be put in one order that a single card would allow. What is unknown
// may have happened at any time since it was sent, or never.
func linearizable(f *Facts) (out []Violation) {
	byApproval := map[string][]porcupine.Operation{}
	ops := map[string]history.Op{}
	end := int64(0)
	for _, op := range f.Ops {
		end = max(end, int64(op.Returned), int64(op.Invoked))
		if op.Approval == "" || op.Kind != history.Decide && (op.Kind != history.Card || op.Result != history.OK) {
			continue
		}
		ops[op.Approval] = op
		byApproval[op.Approval] = append(byApproval[op.Approval], operation(op))
	}
	for approval, all := range byApproval {
		c := f.asked[approval]
		if c == nil {
			continue // told by others
		}
		first := string(c.Input)
		if c.Original != nil {
			first = string(c.Original)
		}
		final := history.Op{Kind: history.Card, State: c.Verdict, Input: string(c.Input), Result: history.OK}
		all = append(all, porcupine.Operation{Input: final, Output: final, Call: end + 1, Return: end + 2})
		if porcupine.CheckOperationsTimeout(card(f.born(c), first, c.Quorum), all, 20*time.Second) == porcupine.Illegal {
			out = append(out, of(ops[approval], "I1: an approval is linearizable", "no order of its %d operations explains what was told; the row is %s with %s",
				len(all), c.Verdict, c.Input))
		}
	}
	return out
}

// born is the state with which an approval was registered: a policy may have
// denied it there and then, by no person's decision.
func (f *Facts) born(c *rows.Call) string {
	if c.Verdict == "denied" && !slices.ContainsFunc(f.Rows.Decisions, func(d rows.Decision) bool { return d.Approval == c.Approval }) {
		return "denied"
	}
	return "requested"
}

func operation(op history.Op) porcupine.Operation {
	p := porcupine.Operation{Input: op, Output: op, Call: int64(op.Invoked), Return: int64(op.Returned)}
	if op.Result == history.Unknown {
		p.Return = math.MaxInt64
	}
	return p
}

// state is an approval as one person sees it: its state, its input, who
// approved which input, and which decision ids were recorded.
type state struct {
	state, input string
	quorum       int    // how many must approve
	approved     string // "who\x00input\n", sorted
	ids          string // "id\n", sorted
}

// card is the sequential approval.
func card(born, input string, quorum int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{state: born, input: input, quorum: max(quorum, 1)} },
		Step: func(s, in, _ any) (bool, any) { return s.(state).step(in.(history.Op)) },
		DescribeOperation: func(in, _ any) string {
			return fmt.Sprintf("%+v", in)
		},
	}
}

// step tells whether an operation may happen next and be answered as it was.
func (s state) step(op history.Op) (bool, state) {
	if op.Kind == history.Card {
		s = s.closing(op.State)
		return s.state == op.State && s.input == op.Input, s
	}
	switch op.Result {
	case history.Unknown:
		return true, s.decide(op)
	case history.Fail:
		return s.refuses(op)
	}
	return s.accepts(op)
}

// closing: an open card may be closed by its deadline, a cancel or a newer
// turn at any time; what is closed stays as it is.
func (s state) closing(told string) state {
	if s.state == "requested" && closed(told) {
		s.state = told
	}
	return s
}

func closed(state string) bool {
	return slices.Contains([]string{"expired", "lapsed", "cancelled", "superseded"}, state)
}

func (s state) refuses(op history.Op) (bool, state) {
	switch op.Problem {
	case "approval-closed":
		s = s.closing(op.State)
		return closed(s.state), s
	case "already-decided":
		return (s.state == "approved" || s.state == "denied") && !s.stands(op), s
	case "card-stale":
		return s.state == "requested" && op.Seen != "" && op.Seen != s.input, s
	}
	return true, s // it was not looked at
}

// stands: the verdict that is asked for is the one that stands.
func (s state) stands(op history.Op) bool {
	return s.state == verdict(op.Approved) && (op.Edit == "" || op.Edit == s.input)
}

func (s state) accepts(op history.Op) (bool, state) {
	known := has(s.ids, op.Decision)
	switch op.Answer {
	case "applied":
		if known { // by an earlier try of the same request
			return s.state == verdict(op.Approved), s
		}
		next := s.decide(op)
		return s.state == "requested" && next.state == verdict(op.Approved), next
	case "recorded":
		next := s.decide(op)
		return s.state == "requested" && next.state == "requested" && (known || op.Approved), next
	case "already-applied": // which a recorded answer stays when its card is closed
		s = s.closing(op.State)
		return s.state != "requested" && (known || s.stands(op)), s
	}
	return false, s
}

// decide is the decision itself, where it may be given; otherwise nothing.
func (s state) decide(op history.Op) state {
	if s.state != "requested" || has(s.ids, op.Decision) || op.Seen != "" && op.Seen != s.input {
		return s
	}
	input := s.input
	if op.Edit != "" {
		input = op.Edit
	}
	if !op.Approved {
		s.ids, s.state, s.input = with(s.ids, op.Decision), "denied", input
		return s
	}
	if has(s.approved, op.By+"\x00"+input) {
		return s // who has approved it already adds nothing
	}
	s.ids, s.input = with(s.ids, op.Decision), input
	s.approved = with(s.approved, op.By+"\x00"+input)
	if s.people(input) >= s.quorum {
		s.state = "approved"
	}
	return s
}

func (s state) people(input string) (n int) {
	for line := range strings.Lines(s.approved) {
		if strings.HasSuffix(line, "\x00"+input+"\n") {
			n++
		}
	}
	return n
}

func has(lines, one string) bool {
	return strings.HasPrefix(lines, one+"\n") || strings.Contains(lines, "\n"+one+"\n")
}

func with(lines, one string) string {
	all := append(strings.Split(strings.TrimSuffix(lines, "\n"), "\n"), one)
	slices.Sort(all)
	return strings.TrimPrefix(strings.Join(all, "\n"), "\n") + "\n"
}
