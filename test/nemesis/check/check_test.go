package check

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/inject"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/rows"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// begin is when the history of these tests begins.
var begin = time.Unix(1000, 0)

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func when(seconds float64) *time.Time {
	t := begin.Add(at(seconds))
	return &t
}

// good is a run of one unsafe call that two people answered and a worker ran,
// and after which the backend went on.
func good() *Facts {
	input := []byte(`{"n":1}`)
	digest := model.Digest("acme", "call", "unsafe_w", []byte("def"), input)
	sum := sha256.Sum256(input)
	request := ledger.Request{Call: "call", Attempt: 1, Key: "call", SHA256: hex.EncodeToString(sum[:])}
	return &Facts{
		Begin: begin, Lease: 3 * time.Second,
		Rows: rows.All{
			Turns: []rows.Turn{
				{Tenant: "acme", ID: "turn", Topic: "t", Message: "m1", State: "done", Calls: 1, Continuation: "accepted", AcceptedBy: "next"},
				{Tenant: "acme", ID: "next", Topic: "t", Message: "m2", State: "done", Continues: "turn"},
			},
			Calls: []rows.Call{{
				Tenant: "acme", ID: "call", Turn: "turn", Topic: "t", Tool: "unsafe_w", Effect: "unsafe", Executor: "worker",
				Definition: []byte("def"), State: "output-available", Run: "succeeded", Input: input, Digest: digest, Output: []byte(`{"effect":1}`),
				Fence: 1, MaxAttempts: 4, Approval: "card", Verdict: "approved", DecidedBy: "user:bob", DecisionID: "d1",
				DecidedAt: when(2), Quorum: 1,
			}},
			Decisions: []rows.Decision{{Tenant: "acme", ID: "d1", Approval: "card", Call: "call", Approved: true, By: "user:bob", Digest: digest}},
			Attempts: []rows.Attempt{{Tenant: "acme", Call: "call", Worker: "w", Outcome: "succeeded", Fence: 1, StartedAt: *when(3),
				FinishedAt: when(4)}},
		},
		Requests: []ledger.Request{request},
		Effects:  []ledger.Effect{{Request: request, N: 1}},
		Ops: []history.Op{
			{Seq: 1, Kind: history.Register, Tenant: "acme", Topic: "t", Turn: "turn", Message: "m1", Invoked: at(0), Returned: at(1), Result: history.OK},
			{Seq: 2, Kind: history.Decide, Tenant: "acme", Topic: "t", Approval: "card", Decision: "d1", Approved: true, By: "user:bob",
				Invoked: at(1), Returned: at(2), Result: history.OK, Answer: "applied", State: "approved"},
			{Seq: 3, Kind: history.Decide, Tenant: "acme", Topic: "t", Approval: "card", Decision: "d2", By: "user:eve",
				Invoked: at(1), Returned: at(3), Result: history.Fail, Status: 409, Problem: "already-decided", State: "approved"},
			{Seq: 4, Kind: history.Card, Tenant: "acme", Topic: "t", Approval: "card", Call: "call", Invoked: at(3), Returned: at(4),
				Result: history.OK, State: "approved", Input: string(input)},
			{Seq: 5, Kind: history.Register, Tenant: "acme", Topic: "t", Turn: "next", Message: "m2", Continues: "turn", Invoked: at(5), Returned: at(6),
				Result: history.OK},
		},
	}
}

// What is in order is not complained about.
func TestAGoodRunIsGood(t *testing.T) {
	t.Parallel()
	for _, v := range All(good()) {
		t.Error(v)
	}
}

// Each way in which the facts can contradict each other is found, by the check
// that is there for it.
func TestEachContradictionIsFound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*Facts)
		by    string
	}{
		"a second effect":           {func(f *Facts) { f.Effects = append(f.Effects, f.Effects[0]) }, "I4: an unsafe call"},
		"an attempt sent twice":     {func(f *Facts) { f.Requests = append(f.Requests, f.Requests[0]) }, "I4: an attempt is sent once"},
		"another key":               {func(f *Facts) { f.Requests[0].Key = "other" }, "I4: all attempts of a call"},
		"an attempt without a row":  {func(f *Facts) { f.Rows.Attempts = nil }, "I4: every attempt"},
		"success without effect":    {func(f *Facts) { f.Effects = nil }, "I4: what succeeded"},
		"an effect of no call":      {func(f *Facts) { f.Effects[0].Call = "none" }, "I5: nothing runs without a row"},
		"another input":             {func(f *Facts) { f.Effects[0].SHA256 = "00" }, "I5: exactly the approved input"},
		"a denied call that ran":    {func(f *Facts) { f.Rows.Calls[0].Verdict = "denied" }, "I6"},
		"a stopped call that ran":   {func(f *Facts) { f.Rows.Calls[0].Run = "stopped" }, "I6"},
		"run before the approval":   {func(f *Facts) { f.Rows.Attempts[0].StartedAt = *when(1) }, "I5: the approval was committed before"},
		"too few approvals":         {func(f *Facts) { f.Rows.Calls[0].Quorum = 2 }, "I5: a committed approval"},
		"another call's output":     {func(f *Facts) { f.Rows.Calls[0].ID, f.Effects[0].Call = "other", "call" }, "I4: a result is of its own call"},
		"another attempt's output":  {func(f *Facts) { f.Effects[0].Attempt = 2 }, "I4: a result is guarded"},
		"a word that came too soon": {func(f *Facts) { f.Rows.Calls[0].Resolution = "did-not-happen" }, "I4: nobody is heard"},
		"a proof that is none":      {func(f *Facts) { f.Rows.Attempts[0].Outcome = "nothing-sent" }, "I4: what proved"},
		"a lost decision":           {func(f *Facts) { f.Rows.Decisions = nil }, "I3: an acknowledged decision"},
		"a refusal that was done": {func(f *Facts) {
			f.Rows.Decisions = append(f.Rows.Decisions, rows.Decision{ID: "d2", Approval: "card"})
		}, "I3: what was refused"},
		"two verdicts": {func(f *Facts) { f.Ops[3].State = "denied" }, "I1: the first committed verdict"},
		"two decisions applied": {func(f *Facts) {
			f.Ops[2].Result, f.Ops[2].Answer, f.Ops[2].State = history.OK, "applied", "denied"
		}, "I1: an approval is linearizable"},
		"seen and un-seen":        {func(f *Facts) { f.Ops[3].State = "requested" }, "I1: an approval is linearizable"},
		"a torn card":             {func(f *Facts) { f.Ops[3].Input = `{"n":2}` }, "I1: an approval is linearizable"},
		"a lost turn":             {func(f *Facts) { f.Ops[0].Turn = "gone" }, "I3: an acknowledged turn"},
		"another tenant's turn":   {func(f *Facts) { f.Rows.Turns[0].Tenant = "umbrella" }, "I9"},
		"no continuation":         {func(f *Facts) { f.Rows.Turns[0].Continuation = "" }, "I2"},
		"two turns that go on":    {func(f *Facts) { f.Rows.Turns = append(f.Rows.Turns, rows.Turn{ID: "third", Continues: "turn"}) }, "I2"},
		"an ended turn continued": {func(f *Facts) { f.Rows.Turns[0].Ended = "aborted" }, "I2"},
		"a claim given twice": {func(f *Facts) {
			claim := history.Op{Kind: history.Claim, Tenant: "acme", Call: "call", Fence: 1, Token: "a", Result: history.OK}
			other := claim
			other.Token = "b"
			f.Ops = append(f.Ops, claim, other)
		}, "I4: a claim is one process's"},
		"a result of an old fence": {func(f *Facts) {
			f.Ops = append(f.Ops,
				history.Op{Kind: history.Claim, Tenant: "acme", Call: "call", Fence: 2, Token: "b", Result: history.OK, Returned: at(5)},
				history.Op{Kind: history.Report, Tenant: "acme", Call: "call", Fence: 1, Result: history.OK, Invoked: at(6)})
		}, "I4: a result is guarded"},
		"another tenant's card": {func(f *Facts) {
			f.Ops = append(f.Ops, history.Op{Kind: history.Foreign, Tenant: "umbrella", Result: history.OK})
		}, "I9"},
		"an outcome thrown away": {func(f *Facts) {
			f.Rows.Attempts[0].Outcome, f.Requests = "lease-lost", nil
		}, "I4: an outcome is unknown only"},
	} {
		f := good()
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

// A fault explains what it can explain.
func TestAFaultExplainsALostOutcome(t *testing.T) {
	t.Parallel()
	for target, explains := range map[string]bool{"worker-0": true, "api-0": false} {
		f := good()
		f.Rows.Attempts[0].Outcome, f.Requests = "lease-lost", nil
		f.Faults = []inject.Record{{Fault: schedule.Fault{Kind: schedule.Kill, Target: target}, Began: at(3.5), Ended: at(4)}}
		f.index()
		if got := len(explained(f)) == 0; got != explains {
			t.Errorf("a killed %s explains it: %v", target, got)
		}
	}
}

// What nobody knows may have happened, at any time, or never.
func TestTheUnknownMayHaveHappened(t *testing.T) {
	t.Parallel()
	f := good()
	f.Ops[1].Result, f.Ops[1].Answer = history.Unknown, "" // who wins did not hear of it
	f.Ops = append(f.Ops, history.Op{Kind: history.Decide, Tenant: "acme", Approval: "card", Decision: "d3", By: "user:eve", Invoked: at(2),
		Result: history.Unknown})
	for _, v := range All(f) {
		t.Error(v)
	}
}
