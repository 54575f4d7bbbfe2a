package check

import (
	"strings"
	"testing"

	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// chat is a run of one chat: a message whose card a newer one superseded, and
// the newer one with its answer.
func chat() *Facts {
	turn := func(id, message string, more rows.Turn) rows.Turn {
		more.Tenant, more.Topic, more.ID, more.Message = "acme", "c", id, message
		return more
	}
	message := func(id, role string, position int64) rows.Message {
		return rows.Message{Tenant: "acme", Topic: "c", ID: id, Role: role, Position: position}
	}
	say := func(id string) history.Op {
		return history.Op{Kind: history.Say, Tenant: "acme", Topic: "c", Message: id, Result: history.OK}
	}
	return &Facts{
		Rows: rows.All{
			Turns: []rows.Turn{
				turn("r1", "u1", rows.Turn{Reply: true, Continuation: "accepted", AcceptedBy: "n1"}),
				turn("n1", "a1", rows.Turn{Continues: "r1", Ended: "aborted", Calls: 1}),
				turn("r2", "u2", rows.Turn{Reply: true, Continuation: "accepted", AcceptedBy: "n2"}),
				turn("n2", "a2", rows.Turn{Continues: "r2"}),
			},
			Calls: []rows.Call{{Tenant: "acme", Topic: "c", ID: "call", Turn: "n1", Approval: "card", Verdict: "superseded", State: "output-denied"}},
			Messages: []rows.Message{message("u1", "user", 1), message("a1", "assistant", 2), message("u2", "user", 3),
				message("a2", "assistant", 4)},
		},
		Ops: []history.Op{say("u1"), say("u2")},
	}
}

// What is in order in a chat is not complained about, and each contradiction
// is.
func TestChats(t *testing.T) {
	t.Parallel()
	for _, v := range All(chat()) {
		t.Error(v)
	}
	for name, c := range map[string]struct {
		spoil func(*Facts)
		by    string
	}{
		"a lost message":  {func(f *Facts) { f.Rows.Messages = f.Rows.Messages[:2] }, "I3: an acknowledged message"},
		"no reply":        {func(f *Facts) { f.Rows.Turns = f.Rows.Turns[:2] }, "I3: an acknowledged message"},
		"no answer":       {func(f *Facts) { f.Rows.Turns[3].Discarded = true }, "I2: each message of a chat"},
		"a lost answer":   {func(f *Facts) { f.Rows.Messages[3].Dropped = true }, "I2: each message of a chat"},
		"an early answer": {func(f *Facts) { f.Rows.Messages[3].Position = 0 }, "I2: each message of a chat"},
		"two answers": {func(f *Facts) {
			again, next := f.Rows.Turns[2], f.Rows.Turns[3]
			again.ID, again.AcceptedBy, next.ID, next.Continues = "r3", "n3", "n3", "r3"
			f.Rows.Turns = append(f.Rows.Turns, again, next)
		}, "I2: each message of a chat"},
		"a refused message":                {func(f *Facts) { f.Ops[1].Result = history.Fail }, "I3: what was refused"},
		"a queued message that supersedes": {func(f *Facts) { f.Ops[1].While = "queue" }, "I1: no card is closed by"},
		"a message that supersedes itself": {func(f *Facts) { f.Ops = f.Ops[:1] }, "I1: no card is closed by"},
	} {
		f := chat()
		c.spoil(f)
		found := false
		for _, v := range All(f) {
			found = found || strings.HasPrefix(v.Invariant, c.by)
		}
		if !found {
			t.Errorf("%s: not found by %q, but by %v", name, c.by, All(f))
		}
	}
}
