package model

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// Ids that callers choose are kept as they came; what nobody can see is
// refused.
func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"chat-42", "a.b", "a b", "a/b", "*", ">", "ü", "会話", strings.Repeat("x", MaxIDLength)} {
		if err := CheckID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a\x00", "a\nb", "\u202e", "\u200b", "\ufeff", "\xff", "a\U000e0041", strings.Repeat("x", MaxIDLength+1)} {
		if CheckID(bad) == nil {
			t.Errorf("%q passed", bad)
		}
	}
	if err := CheckProse("two\nlines\tand a tab"); err != nil {
		t.Error(err)
	}
	if _, err := ParseUUID[TurnID]("{01a22c8c-e9c4-7907-943d-bb50a381ef2d}"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a UUID in another form names nothing: %v", err)
	}
}

// I5: no two different cards have equal digests, wherever one field ends and
// the next begins.
func TestI5TheDigestBindsEveryField(t *testing.T) {
	t.Parallel()
	base := func() []byte { return Digest("t", "c", "tool", []byte("def"), []byte("in")) }
	for name, other := range map[string][]byte{
		"tenant":     Digest("u", "c", "tool", []byte("def"), []byte("in")),
		"call":       Digest("t", "d", "tool", []byte("def"), []byte("in")),
		"tool":       Digest("t", "c", "tooL", []byte("def"), []byte("in")),
		"definition": Digest("t", "c", "tool", []byte("deg"), []byte("in")),
		"input":      Digest("t", "c", "tool", []byte("def"), []byte("in ")),
		"boundary":   Digest("t", "c", "tool", []byte("defi"), []byte("n")),
	} {
		if bytes.Equal(base(), other) {
			t.Errorf("%s is not bound", name)
		}
	}
	if !bytes.Equal(base(), base()) {
		t.Error("equal cards must have equal digests")
	}
}

// asked is a turn with one open card.
func asked(quorum int) *Turn {
	now := time.Unix(1000, 0)
	turn := &Turn{ID: "t", Execution: ExecuteWhenDecided, Calls: []*Call{{
		ID: "c", State: CallApprovalRequested, Digest: []byte("d"), Tool: CallTool{MaxAttempts: 3, Effect: EffectUnsafe, Executor: ExecutorWorker},
		Approval: &Approval{ID: "a", State: ApprovalRequested, ExpiresAt: now.Add(time.Hour), Rule: Requirement{Quorum: quorum}},
	}}}
	turn.Begin(now)
	return turn
}

func answerOf(id string, approved bool, by string) Decision {
	return Decision{ID: id, Approval: "a", Approved: approved, Content: []byte(id),
		By: Principal{Subject: by, Key: "k", Roles: []Role{RoleApprover}}}
}

// The rows of the decision endpoint's table, in their order.
func TestDecideRowByRow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1001, 0)
	yes := answerOf("1", true, "user:bob")
	record := DecisionRecord{ID: "1", Approval: "a", Approved: true, Digest: []byte("d"), By: "user:bob", Content: []byte("1")}
	reused := record
	reused.Content = []byte("other")
	closed := asked(1)
	closed.End(TurnAborted, OutcomeCancelled, TextCancelled, now)
	approved := asked(1)
	if _, err := approved.Decide(yes, Answers{}, now); err != nil {
		t.Fatal(err)
	}
	backend, unknown, stale := yes, yes, yes
	backend.By.Roles = []Role{RoleBackend}
	unknown.Approval = "b"
	stale.Seen = []byte("old")
	for name, c := range map[string]struct {
		turn *Turn
		d    Decision
		past Answers
		at   time.Time
		want DecisionResult
		err  error
	}{
		"1 unknown":              {asked(1), unknown, Answers{}, now, "", ErrNotFound},
		"2 the same again":       {approved, yes, Answers{SameID: &record}, now, DecisionAlreadyApplied, nil},
		"2 other content":        {approved, yes, Answers{SameID: &reused}, now, "", ErrDecisionIDReused},
		"3 not allowed":          {asked(1), backend, Answers{}, now, "", ErrNotPermitted},
		"4 cancelled":            {closed, yes, Answers{}, now, "", ErrApprovalClosed},
		"5 that verdict stands":  {approved, answerOf("2", true, "user:cid"), Answers{}, now, DecisionAlreadyApplied, nil},
		"6 another stands":       {approved, answerOf("2", false, "user:cid"), Answers{}, now, "", ErrAlreadyDecided},
		"7 past its deadline":    {asked(1), yes, Answers{}, now.Add(time.Hour), "", ErrApprovalClosed},
		"8 stale":                {asked(1), stale, Answers{}, now, "", ErrCardStale},
		"9 more are needed":      {asked(2), yes, Answers{}, now, DecisionRecorded, nil},
		"9 the same person":      {asked(2), answerOf("2", true, "user:bob"), Answers{Approval: []DecisionRecord{record}}, now, DecisionRecorded, nil},
		"10 the second":          {asked(2), answerOf("2", true, "user:cid"), Answers{Approval: []DecisionRecord{record}}, now, DecisionApplied, nil},
		"10 one denial decides":  {asked(2), answerOf("2", false, "user:cid"), Answers{Approval: []DecisionRecord{record}}, now, DecisionApplied, nil},
		"10 the only one needed": {asked(1), yes, Answers{}, now, DecisionApplied, nil},
	} {
		got, err := c.turn.Decide(c.d, c.past, c.at)
		if got != c.want || !errors.Is(err, c.err) || c.turn.Err() != nil {
			t.Errorf("%s: %q, %v, %v", name, got, err, c.turn.Err())
		}
	}
}

// An approval counts for what it saw: after an edit, who approved the input
// before must approve again.
func TestAnEditAsksTheQuorumAnew(t *testing.T) {
	t.Parallel()
	turn, now := asked(2), time.Unix(1001, 0)
	past := []DecisionRecord{{ID: "1", Approval: "a", Approved: true, Digest: []byte("d"), By: "user:bob"}}
	edit := answerOf("2", true, "user:cid")
	edit.Edit = &Edit{Input: []byte(`{}`), Digest: []byte("e")}
	if got, err := turn.Decide(edit, Answers{Approval: past}, now); got != DecisionRecorded || err != nil {
		t.Fatalf("the edit: %s, %v", got, err)
	}
	past = append(past, turn.Records.Decisions...)
	again := answerOf("3", true, "user:bob")
	again.Seen = []byte("e")
	if got, err := turn.Decide(again, Answers{Approval: past}, now); got != DecisionApplied || err != nil {
		t.Fatalf("bob again: %s, %v", got, err)
	}
	if c := turn.Calls[0]; !c.Edited || string(c.Digest) != "e" || c.Run != RunQueued {
		t.Fatalf("the call: %+v", c)
	}
}

// An illegal edge, whoever tries it, is an error that keeps the turn from
// being written.
func TestAnIllegalEdgeSticks(t *testing.T) {
	t.Parallel()
	turn := asked(1)
	turn.moveCall(turn.Calls[0], CallOutputAvailable)
	if !errors.Is(turn.Err(), ErrIllegalTransition) {
		t.Error(turn.Err())
	}
}
