package check

import (
	"fmt"
	"slices"

	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/rows"
)

// place names a message or a topic.
type place struct{ tenant, topic, message string }

// answered: I2 for a chat. A message that was taken is there, and asks for a
// reply. At rest each message has one whole answer, or visibly none: the
// answer was ended, or asked for anew.
func answered(f *Facts) (out []Violation) {
	const invariant = "I2: each message of a chat is answered exactly once"
	replies := map[place][]*rows.Turn{}
	for i := range f.Rows.Turns {
		if t := &f.Rows.Turns[i]; t.Reply {
			at := place{t.Tenant, t.Topic, t.Message}
			replies[at] = append(replies[at], t)
		}
	}
	messages := f.messages()
	for _, op := range f.Ops {
		at := place{op.Tenant, op.Topic, op.Message}
		if op.Kind == history.Say && op.Result == history.OK && (messages[at] == nil || len(replies[at]) == 0) {
			out = append(out, of(op, "I3: an acknowledged message is in the rows", "%s was taken, and is in no row or asks for no reply", op.Message))
		}
	}
	for at, asked := range replies {
		m := messages[at]
		if m == nil || m.Dropped {
			continue
		}
		whole := 0
		for _, r := range asked {
			whole += f.answersOf(r, messages, m)
		}
		if last := asked[len(asked)-1]; whole > 1 || whole == 0 && !f.visiblyEnded(last) {
			out = append(out, Violation{Invariant: invariant, Detail: fmt.Sprintf("%s has %d whole answers", m.ID, whole),
				Tenant: m.Tenant, Topic: m.Topic, Turn: last.ID})
		}
	}
	return out
}

func (f *Facts) messages() map[place]*rows.Message {
	out := map[place]*rows.Message{}
	for i := range f.Rows.Messages {
		m := &f.Rows.Messages[i]
		out[place{m.Tenant, m.Topic, m.ID}] = m
	}
	return out
}

// answersOf counts the whole answers of one reply, behind its message.
func (f *Facts) answersOf(reply *rows.Turn, messages map[place]*rows.Message, asked *rows.Message) (whole int) {
	for i := range f.Rows.Turns {
		t := &f.Rows.Turns[i]
		if t.Continues != reply.ID || t.Discarded || t.Ended != "" {
			continue
		}
		if m := messages[place{t.Tenant, t.Topic, t.Message}]; m != nil && !m.Dropped && m.Position > asked.Position {
			whole++
		}
	}
	return whole
}

// visiblyEnded tells whether a reply, or the turn that gave it, was ended by
// somebody.
func (f *Facts) visiblyEnded(reply *rows.Turn) bool {
	next := f.turns[reply.AcceptedBy]
	return reply.Ended != "" || next != nil && next.Ended != ""
}

// superseded: I1. No card of a chat is closed by something newer where nobody
// did anything that takes its place.
func superseded(f *Facts) (out []Violation) {
	for i := range f.Rows.Calls {
		c := &f.Rows.Calls[i]
		if c.Verdict != "superseded" || !slices.ContainsFunc(f.Ops, func(op history.Op) bool {
			return op.Kind == history.Say && op.Topic == c.Topic && op.Tenant == c.Tenant
		}) {
			continue
		}
		if !slices.ContainsFunc(f.Ops, func(op history.Op) bool { return f.tookItsPlace(op, c) }) {
			out = append(out, about(c, "I1: no card is closed by somebody else's turn", "it was superseded, and nobody wrote anything newer"))
		}
	}
	return out
}

// tookItsPlace tells whether a request may have superseded a call's turn: it
// may have been done, it ends what is open, and it is not the message that the
// turn answers.
func (f *Facts) tookItsPlace(op history.Op, c *rows.Call) bool {
	if op.Tenant != c.Tenant || op.Topic != c.Topic || op.Result == history.Fail {
		return false
	}
	asked := f.askedBy(f.turns[c.Turn])
	return op.Kind == history.Again || op.Kind == history.Say && (op.While == "" || op.While == "supersede") && op.Message != asked
}

// askedBy is the person's message at which a turn's chain begins.
func (f *Facts) askedBy(t *rows.Turn) string {
	for t != nil && t.Continues != "" {
		t = f.turns[t.Continues]
	}
	if t == nil {
		return ""
	}
	return t.Message
}
