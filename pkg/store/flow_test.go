package store

import (
	"errors"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// One call goes the whole way: asked, approved, claimed, finished, continued.
func TestOneCallGoesTheWholeWay(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	out := register(t, s, registration("t1", asking(tool, "c1")))
	call := out.Turn.Calls[0]
	if got := out.Topic.Status(); got != model.TopicAwaitingApproval || out.Topic.Version != 1 || !out.Created {
		t.Fatalf("registered: %s, version %d, created %v", got, out.Topic.Version, out.Created)
	}
	decided, err := s.Decide(t.Context(), tenant, verdict(call, true, "bob"))
	if err != nil || decided.Result != model.DecisionApplied || decided.Topic.Version != 2 {
		t.Fatalf("decide: %+v, %v", decided, err)
	}
	if decided.Topic.Status() != model.TopicPending {
		t.Fatalf("the commit of the last decision moves the topic on, got %s", decided.Topic.Status())
	}
	claimed, err := s.Claim(t.Context(), tenant, call.ID, claimOf(call, "token"))
	if err != nil || claimed.Call.Fence != 1 || claimed.Call.Run != model.RunStarted {
		t.Fatalf("claim: %+v, %v", claimed.Call, err)
	}
	result := model.Result{Kind: model.ResultSucceeded, Output: []byte(`{"ok": true}`)}
	finished, err := s.Finish(t.Context(), tenant, call.ID, 1, "token", result)
	if err != nil || finished.Turn.State() != model.TurnContinuing {
		t.Fatalf("finish: %s, %v", finished.Turn.State(), err)
	}
	next := registration("t1")
	next.Message, next.Continues, next.Content = "", out.Turn.ID, sum("next")
	again := register(t, s, next)
	if again.Turn.Message != "msg_1" || again.Turn.Step != 1 || again.Topic.Status() != model.TopicDone {
		t.Fatalf("continued: message %s, step %d, topic %s", again.Turn.Message, again.Turn.Step, again.Topic.Status())
	}
	if got := state(t, s, out.Turn.ID); got != model.TurnDone {
		t.Fatalf("the continued turn is %s", got)
	}
	h, err := s.Messages(t.Context(), tenant, "t1", Range{})
	if err != nil || len(h.Messages) != 1 || len(h.Messages[0].Turns) != 2 {
		t.Fatalf("messages: %+v, %v", h, err)
	}
	if got := string(h.Messages[0].Turns[0].Calls[0].Output); got != `{"ok": true}` {
		t.Fatalf("output bytes: %s", got)
	}
}

// Registering the same turn twice gives the rows as they are now; other
// content under the same identity is a conflict.
func TestRegisteringTwice(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	r := registration("t1", asking(tool, "c1"))
	first := register(t, s, r)
	if _, err := s.Decide(t.Context(), tenant, verdict(first.Turn.Calls[0], false, "bob")); err != nil {
		t.Fatal(err)
	}
	second := register(t, s, registration("t1", asking(tool, "c1")))
	if second.Created || second.Turn.ID != first.Turn.ID || second.Turn.State() != model.TurnContinuing {
		t.Fatalf("again: created %v, turn %s, %s", second.Created, second.Turn.ID, second.Turn.State())
	}
	other := registration("t1", asking(tool, "c1"))
	other.Content = sum("other")
	if _, err := s.Register(t.Context(), other); !errors.Is(err, model.ErrTurnConflict) {
		t.Fatalf("other content: %v", err)
	}
	if n := scalar[int](t, s, `select count(*) from turns`); n != 1 {
		t.Fatalf("%d turns", n)
	}
}

// What is in the way of a turn is named, ended, or left alone, as asked.
func TestWhileOpen(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	first := register(t, s, registration("t1", asking(tool, "c1"), allowed(tool, "c2")))
	next := registration("t1", asking(tool, "c3"))
	next.Message, next.Content = "msg_2", sum("second")
	out, err := s.Register(t.Context(), next)
	if !errors.Is(err, model.ErrTurnOpen) || out.Open == nil || out.Open.Turn != first.Turn.ID {
		t.Fatalf("block: %+v, %v", out.Open, err)
	}
	next.WhileOpen = WhileOpenSupersede
	register(t, s, next)
	old, err := s.Turn(t.Context(), tenant, first.Turn.ID)
	if err != nil {
		t.Fatal(err)
	}
	asked, queued := old.Calls[0], old.Calls[1]
	if old.State() != model.TurnAborted || asked.Approval.State != model.ApprovalSuperseded || asked.Outcome != model.OutcomeSuperseded {
		t.Fatalf("superseded: %s, %s, %s", old.State(), asked.Approval.State, asked.Outcome)
	}
	if queued.Run != model.RunStopped || queued.State != model.CallOutputError {
		t.Fatalf("a queued call of an ended turn: %s, %s", queued.Run, queued.State)
	}
	if _, err := s.Decide(t.Context(), tenant, verdict(asked, true, "bob")); !errors.Is(err, model.ErrApprovalClosed) {
		t.Fatalf("deciding a superseded card: %v", err)
	}
	third := registration("t1", asking(tool, "c4"))
	third.Message, third.Content, third.WhileOpen = "msg_3", sum("third"), WhileOpenParallel
	register(t, s, third)
	view, err := s.Topic(t.Context(), tenant, "t1")
	if err != nil || view.Counters.Awaiting != 2 || len(view.Turns) != 2 {
		t.Fatalf("parallel: %+v, %v", view, err)
	}
}

// Cancelling ends what is open at once; with nothing open nothing is written.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	out := register(t, s, registration("t1", asking(tool, "c1")))
	for want, i := 1, 0; i < 2; want, i = 0, i+1 {
		n, err := s.Cancel(t.Context(), tenant, "t1", "", "key:ops", "api")
		if err != nil || n != want {
			t.Fatalf("cancel %d: %d turns, %v", i, n, err)
		}
	}
	if v, _ := s.Version(t.Context(), tenant, "t1"); v != 2 {
		t.Fatalf("version %d after one cancel that changed something and one that did not", v)
	}
	if got := state(t, s, out.Turn.ID); got != model.TurnAborted {
		t.Fatal(got)
	}
	if n := scalar[int](t, s, `select count(*) from continuations`); n != 0 {
		t.Fatal("an ended turn makes no continuation (I2)")
	}
}
