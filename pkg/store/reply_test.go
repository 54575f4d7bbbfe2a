package store

import (
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// asks is a person's message to which a reply is asked for.
func asks(topic, id string) Appending {
	return Appending{Topic: model.TopicID(topic), WhileOpen: WhileOpenBlock, Actor: "key:backend", Channel: "api",
		Messages: []NewMessage{{ID: model.MessageID(id), Role: "user", Parts: []byte(`[{"type":"text","text":"Hello"}]`), Content: sum(id)}},
		Reply:    &model.Turn{Execution: model.ExecuteWhenDecided, Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}}}
}

// I2: a message that wants a reply has one continuation, ready in the commit
// that stores it; who accepts it begins a new message, and asking again is
// the same asking.
func TestI2AReplyIsAskedForOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u"))
	if err != nil || !first.Created || first.Reply == "" {
		t.Fatalf("append: %+v, %v", first, err)
	}
	again, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u"))
	if err != nil || again.Created || again.Reply != first.Reply || again.Topic.Version != first.Topic.Version {
		t.Fatalf("the same again: %+v, %v", again, err)
	}
	asked, err := s.Turn(t.Context(), tenant, first.Reply)
	if err != nil || asked.State() != model.TurnContinuing || asked.Continuation.State != model.ContinuationReady || asked.Message != "u" {
		t.Fatalf("the turn that asks: %+v, %v", asked, err)
	}
	if _, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u2")); !errors.Is(err, model.ErrTurnOpen) {
		t.Errorf("another message meanwhile: %v", err)
	}
	conflict := registration("chat")
	conflict.Message, conflict.Continues = "u", first.Reply
	if _, err := s.Register(t.Context(), conflict); !errors.Is(err, model.ErrMessageConflict) {
		t.Errorf("an answer within the person's message: %v", err)
	}
	answer := registration("chat")
	answer.Message, answer.Continues = "", first.Reply
	for _, created := range []bool{true, false} {
		out, err := s.Register(t.Context(), answer)
		if err != nil || out.Created != created || out.Turn.Message != model.ReplyID(first.Reply) || out.Turn.Step != 0 {
			t.Fatalf("the answer: %+v, %v", out, err)
		}
	}
	h, err := s.Messages(t.Context(), tenant, "chat", Range{})
	if err != nil || len(h.Messages) != 2 || h.Messages[0].Role != "user" || h.Messages[1].Role != "assistant" {
		t.Errorf("messages: %+v, %v", h, err)
	}
	topic, err := s.Topic(t.Context(), tenant, "chat")
	if err != nil || topic.Status() != model.TopicDone || len(topic.Turns) != 0 {
		t.Errorf("topic: %+v, %v", topic, err)
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}

// An answer that dies while it streams, without a call, gives the continuation
// back; the one after it is the same message.
func TestAnAnswerThatDiesIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := open(t)
	asked, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u"))
	must(t, err)
	live := registration("chat")
	live.Message, live.Continues, live.Live = "", asked.Reply, time.Minute
	first := register(t, s, live)
	exec(t, s, `update turns set live_until = clock_timestamp() where turn_id = $1`, string(first.Turn.ID))
	if n, err := s.CloseDeadTurns(t.Context()); err != nil || n != 2 {
		t.Fatalf("close dead turns: %d, %v", n, err)
	}
	turn, err := s.Turn(t.Context(), tenant, asked.Reply)
	if err != nil || turn.Continuation.State != model.ContinuationReady || turn.Continuation.Generation != 1 {
		t.Fatalf("the turn that asks: %+v, %v", turn.Continuation, err)
	}
	second := register(t, s, live)
	if second.Turn.Message != first.Turn.Message || second.Turn.ID == first.Turn.ID {
		t.Errorf("the next answer: %+v", second.Turn)
	}
	if n, err := s.Cancel(t.Context(), tenant, "chat", "", "key:ops", "api"); err != nil || n != 1 {
		t.Errorf("cancel: %d, %v", n, err)
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}

// I2: a reply that was cancelled or superseded before anybody answered is
// never answered.
func TestI2AReplyThatWasEndedIsNotGiven(t *testing.T) {
	t.Parallel()
	s := open(t)
	asked, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u"))
	must(t, err)
	newer := asks("chat", "u2")
	newer.WhileOpen = WhileOpenSupersede
	next, err := s.AppendMessages(t.Context(), tenant, newer)
	must(t, err)
	if n, err := s.Cancel(t.Context(), tenant, "chat", next.Reply, "key:ops", "api"); err != nil || n != 1 {
		t.Errorf("cancel: %d, %v", n, err)
	}
	for _, ended := range []model.TurnID{asked.Reply, next.Reply} {
		late := registration("chat")
		late.Message, late.Continues = "", ended
		if _, err := s.Register(t.Context(), late); !errors.Is(err, model.ErrContinuationEnded) {
			t.Errorf("a late answer: %v", err)
		}
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}

// said are a topic's messages by id.
func said(t *testing.T, s *Store, topic string) (ids []string) {
	t.Helper()
	h, err := s.Messages(t.Context(), tenant, model.TopicID(topic), Range{})
	must(t, err)
	for _, m := range h.Messages {
		ids = append(ids, string(m.ID))
	}
	return ids
}

// answer registers what answers a reply that was asked for.
func answer(t *testing.T, s *Store, topic, message string, asked Appended, calls ...NewCall) Registered {
	t.Helper()
	r := registration(topic, calls...)
	r.Message, r.Continues = model.MessageID(message), asked.Reply
	return register(t, s, r)
}

// What is regenerated or edited begins the conversation anew at a person's
// message: what came after is dropped, its open turns end, and the message is
// replied to again, all in one commit (I2, I6).
func TestAConversationGoesBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u1"))
	must(t, err)
	tool := putTool(t, s, "danger", model.EffectUnsafe)
	open := answer(t, s, "chat", "a1", first, asking(tool, "c"))

	again := Appending{Topic: "chat", Again: "a1", WhileOpen: WhileOpenSupersede, Reply: asks("chat", "").Reply, Actor: "key:backend", Channel: "chat"}
	blocked := again
	blocked.WhileOpen = WhileOpenBlock
	if out, err := s.AppendMessages(t.Context(), tenant, blocked); !errors.Is(err, model.ErrTurnOpen) || out.Open == nil {
		t.Errorf("while a turn is open: %+v, %v", out, err)
	}
	second, err := s.AppendMessages(t.Context(), tenant, again)
	if err != nil || !second.Created || second.Reply == first.Reply || len(said(t, s, "chat")) != 1 {
		t.Fatalf("regenerate: %+v, %v, %v", second, err, said(t, s, "chat"))
	}
	closed, err := s.Turn(t.Context(), tenant, open.Turn.ID)
	if err != nil || closed.Ended != model.TurnAborted || closed.Calls[0].Approval.State != model.ApprovalSuperseded {
		t.Errorf("the dropped turn: %+v, %v", closed, err)
	}
	for _, names := range []model.MessageID{"a1", "u1"} { // a second window, and a client that names the person's message
		again.Again = names
		if out, err := s.AppendMessages(t.Context(), tenant, again); err != nil || out.Created || out.Reply != second.Reply {
			t.Errorf("regenerate %s again: %+v, %v", names, out, err)
		}
	}
	answer(t, s, "chat", "a2", second)
	third, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u2"))
	must(t, err)
	answer(t, s, "chat", "a3", third)

	edit := asks("chat", "u1")
	edit.Edit, edit.WhileOpen = true, WhileOpenSupersede
	if out, err := s.AppendMessages(t.Context(), tenant, edit); err != nil || out.Created || out.Reply != second.Reply {
		t.Errorf("an edit that changes nothing: %+v, %v", out, err)
	}
	edit.Messages[0].Parts, edit.Messages[0].Content = []byte(`[{"type":"text","text":"Goodbye"}]`), sum("goodbye")
	edited, err := s.AppendMessages(t.Context(), tenant, edit)
	if err != nil || !edited.Created || len(said(t, s, "chat")) != 1 {
		t.Fatalf("edit: %+v, %v, %v", edited, err, said(t, s, "chat"))
	}
	h, err := s.Messages(t.Context(), tenant, "chat", Range{ChangedAfter: edited.Topic.Version - 1})
	if err != nil || string(h.Messages[0].Parts) != string(edit.Messages[0].Parts) || len(h.Dropped) != 3 {
		t.Errorf("what changed: %+v, %v", h, err)
	}
	again.Again = "a3" // belongs to a message that is no part of it any more
	if _, err := s.AppendMessages(t.Context(), tenant, again); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("regenerate what was dropped with its question: %v", err)
	}
	if _, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u2")); !errors.Is(err, model.ErrMessageConflict) {
		t.Errorf("a dropped message once more: %v", err)
	}
	again.Topic = "nowhere"
	if _, err := s.AppendMessages(t.Context(), tenant, again); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("a topic that is not there: %v", err)
	}
	if _, err := s.Topic(t.Context(), tenant, "nowhere"); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("it is made: %v", err)
	}
	answer(t, s, "chat", "a4", edited)
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}

// Of several answers to one message, the one that is wanted anew is dropped
// with what came after it; those before it stay, with their cards.
func TestAnotherAnswerStandsBesideTheOneMadeAnew(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u1"))
	must(t, err)
	tool := putTool(t, s, "danger", model.EffectUnsafe)
	before := answer(t, s, "chat", "a", first, asking(tool, "c"))
	var dropped []model.TurnID
	for _, id := range []model.MessageID{"b", "c"} {
		r := registration("chat", asking(tool, "c"))
		r.Message, r.WhileOpen = id, WhileOpenParallel
		dropped = append(dropped, register(t, s, r).Turn.ID)
	}
	again := Appending{Topic: "chat", Again: "b", WhileOpen: WhileOpenBlock, Reply: asks("chat", "").Reply, Actor: "key:backend", Channel: "chat"}
	if out, err := s.AppendMessages(t.Context(), tenant, again); !errors.Is(err, model.ErrTurnOpen) || out.Open.Turn != dropped[0] {
		t.Errorf("while it is open itself: %+v, %v", out, err)
	}
	again.WhileOpen = WhileOpenSupersede
	_, err = s.AppendMessages(t.Context(), tenant, again)
	must(t, err)
	for _, id := range dropped {
		if was, err := s.Turn(t.Context(), tenant, id); err != nil || was.Ended != model.TurnAborted {
			t.Errorf("a dropped turn: %+v, %v", was, err)
		}
	}
	stands, err := s.Turn(t.Context(), tenant, before.Turn.ID)
	if err != nil || stands.State() != model.TurnAwaitingApproval || len(said(t, s, "chat")) != 2 {
		t.Errorf("the answer before: %+v, %v, %v", stands, err, said(t, s, "chat"))
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}

// A queued reply is asked for with its message, and given when nothing before
// it is open any more; nobody is told of it, or can give it, earlier.
func TestAQueuedReplyWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	s := open(t)
	first, err := s.AppendMessages(t.Context(), tenant, asks("chat", "u1"))
	must(t, err)
	card := answer(t, s, "chat", "a1", first, asking(putTool(t, s, "danger", model.EffectUnsafe), "c"))
	var queued []Appended
	for _, id := range []string{"u2", "u3"} {
		next := asks("chat", id)
		next.WhileOpen = WhileOpenQueue
		next.Reply.Sink = model.Sink{Type: model.SinkWebhook, URL: "https://backend.example", AcceptWithin: time.Minute}
		out, err := s.AppendMessages(t.Context(), tenant, next)
		if err != nil || !out.Created || out.Reply == "" {
			t.Fatalf("queue %s: %+v, %v", id, out, err)
		}
		queued = append(queued, out)
	}
	requireDue := func(want ...model.TurnID) {
		t.Helper()
		due, err := s.DueIn(t.Context(), []TopicKey{{tenant, "chat"}})
		must(t, err)
		listed, err := s.Continuations(t.Context(), tenant, model.ContinuationReady, "chat", "", 10)
		must(t, err)
		if len(due.Continuations) != len(want) || len(listed) != len(want) || len(want) > 0 && due.Continuations[0].Turn != want[0] {
			t.Errorf("due: %+v, listed: %+v, want %v", due.Continuations, listed, want)
		}
	}
	requireDue()
	early := registration("chat")
	early.Message, early.Continues = "a2", queued[0].Reply
	if _, err := s.Register(t.Context(), early); !errors.Is(err, model.ErrTurnOpen) {
		t.Errorf("a reply before its turn: %v", err)
	}
	if n, err := s.LapseHolds(t.Context()); err != nil || n != 0 {
		t.Errorf("let go while a card is open: %d, %v", n, err)
	}
	if n, err := s.Cancel(t.Context(), tenant, "chat", card.Turn.ID, "key:ops", "api"); err != nil || n != 1 {
		t.Errorf("cancel: %d, %v", n, err)
	}
	for i, q := range queued {
		requireDue()
		if n, err := s.LapseHolds(t.Context()); err != nil || n != 1 {
			t.Errorf("let go: %d, %v", n, err)
		}
		requireDue(q.Reply)
		answer(t, s, "chat", []string{"a2", "a3"}[i], q)
	}
	late := asks("chat", "u4")
	late.WhileOpen = WhileOpenQueue // with nothing open it is an ordinary one
	out, err := s.AppendMessages(t.Context(), tenant, late)
	must(t, err)
	late = asks("chat", "u5")
	late.WhileOpen = WhileOpenQueue
	_, err = s.AppendMessages(t.Context(), tenant, late)
	must(t, err)
	if n, err := s.Cancel(t.Context(), tenant, "chat", "", "key:ops", "api"); err != nil || n != 2 {
		t.Errorf("cancel %s and what is queued behind it: %d, %v", out.Reply, n, err)
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}
