package check

import (
	"testing"

	"github.com/countersign/countersign/test/nemesis/history"
)

// What the sequential approval allows, step by step.
func TestOneCardAllows(t *testing.T) {
	t.Parallel()
	const input = `{"n":1}`
	bob := history.Op{Kind: history.Decide, Decision: "d1", By: "user:bob", Approved: true, Seen: input}
	told := func(op history.Op, result history.Result, answer, state string) history.Op {
		op.Result, op.Answer, op.State = result, answer, state
		return op
	}
	seen := func(state string) history.Op {
		return history.Op{Kind: history.Card, Result: history.OK, State: state, Input: input}
	}
	for name, c := range map[string]struct {
		quorum int
		ops    []history.Op
		right  bool
	}{
		"applied, then seen":                   {1, []history.Op{told(bob, history.OK, "applied", "approved"), seen("approved")}, true},
		"applied, then closed":                 {1, []history.Op{told(bob, history.OK, "applied", "approved"), seen("superseded")}, false},
		"recorded, closed, and asked again":    {2, []history.Op{told(bob, history.Unknown, "", ""), told(bob, history.OK, "already-applied", "superseded"), seen("superseded")}, true},
		"closed, and answered for a first try": {2, []history.Op{told(bob, history.OK, "already-applied", "superseded")}, false},
		"answered as closed, then seen open":   {2, []history.Op{told(bob, history.Unknown, "", ""), told(bob, history.OK, "already-applied", "superseded"), seen("requested")}, false},
		"applied by one of two":                {2, []history.Op{told(bob, history.OK, "applied", "approved")}, false},
	} {
		s, right := state{state: "requested", input: input, quorum: c.quorum}, true
		for _, op := range c.ops {
			var allowed bool
			allowed, s = s.step(op)
			right = right && allowed
		}
		if right != c.right {
			t.Errorf("%s: allowed is %v", name, right)
		}
	}
}
