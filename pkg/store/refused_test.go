package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// settled registers a turn whose only call is denied, so that it waits to be
// continued.
func settled(t *testing.T, s *Store, topic string) *model.Turn {
	t.Helper()
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	turn := register(t, s, registration(topic, asking(tool, "c1"))).Turn
	if _, err := s.Decide(t.Context(), tenant, verdict(turn.Calls[0], false, "bob")); err != nil {
		t.Fatal(err)
	}
	return turn
}

// following is a turn that goes on from another in a message of its own, and
// ends what is open.
func following(from *model.Turn, message string) Registration {
	r := registration(string(from.Topic))
	r.Message, r.Continues, r.WhileOpen = model.MessageID(message), from.ID, WhileOpenSupersede
	r.Content = sum(message)
	return r
}

// Who comes second to a continuation is refused, and ends nothing on the way:
// least of all the turn that came first (I2).
func TestARefusedTurnSupersedesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	first := settled(t, s, "t")
	winner := following(first, "msg_2")
	winner.Live = 60e9
	won := register(t, s, winner)
	late := following(first, "msg_3")
	if _, err := s.Register(t.Context(), late); !errors.Is(err, model.ErrContinuationAccepted) {
		t.Errorf("the second: %v", err)
	}
	late.Continues = model.NewTurnID()
	if _, err := s.Register(t.Context(), late); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("an unknown turn to continue: %v", err)
	}
	late.Continues = won.Turn.ID
	if _, err := s.Register(t.Context(), late); !errors.Is(err, model.ErrTurnOpen) {
		t.Errorf("a turn that still streams: %v", err)
	}
	if got := state(t, s, won.Turn.ID); got != model.TurnStreaming {
		t.Errorf("the first is %s", got)
	}
	if v, err := s.Version(t.Context(), tenant, "t"); err != nil || v != 3 {
		t.Errorf("version %d after three commits that changed something, %v", v, err)
	}
	requireConsistent(t, s)
}

// What is refused, or was there before, leaves no trace either when it shares
// its commit with what is taken.
func TestARefusedTurnLeavesNothingInAnothersCommit(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	there := registration("there", asking(tool, "c1"))
	register(t, s, there)
	unknown := registration("nowhere")
	unknown.Continues = model.NewTurnID()
	blocked := registration("there")
	blocked.Message, blocked.Content = "msg_2", sum("blocked")
	var items []registerItem
	for _, r := range []Registration{unknown, registration("new"), there, blocked} {
		items = append(items, registerItem{r, model.NewTurnID(), model.NewMessageID()})
	}
	out, err := s.registerAll(context.Background(), tenant, items)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(out[0].err, out[1].err, out[2].err, out[3].err)
	if want := fmt.Sprint(model.ErrNotFound, nil, nil, model.ErrTurnOpen); got != want {
		t.Errorf("outcomes: %s", got)
	}
	if out[2].value.Created || out[2].value.Topic.Version != 1 {
		t.Errorf("the same again: %+v", out[2].value)
	}
	if v, err := s.Version(t.Context(), tenant, "there"); err != nil || v != 1 {
		t.Errorf("nothing changed, but the version is %d, %v", v, err)
	}
	if _, err := s.Topic(t.Context(), tenant, "nowhere"); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the topic of a refused turn: %v", err)
	}
	requireConsistent(t, s)
}

// A turn that is superseded in the very commit that makes it says so, as any
// other.
func TestATurnThatIsSupersededAtOnceSaysSo(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	first, second := registration("t", asking(tool, "a"), allowed(tool, "b")), registration("t")
	second.Message, second.WhileOpen = "msg_2", WhileOpenSupersede
	items := []registerItem{{first, model.NewTurnID(), "m1"}, {second, model.NewTurnID(), "m2"}}
	out, err := s.registerAll(t.Context(), tenant, items)
	if err != nil || out[0].err != nil || out[1].err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	turn, err := s.Turn(t.Context(), tenant, items[0].id)
	if err != nil || turn.State() != model.TurnAborted || turn.EndReason != string(model.OutcomeSuperseded) {
		t.Errorf("%s, %q, %v", turn.State(), turn.EndReason, err)
	}
	requireConsistent(t, s)
	requireInvariants(t, s, Scope{})
}
