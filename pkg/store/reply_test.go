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
