package store

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// A card shows the input that its digest is of, though people edit it at that
// very moment: who approves the digest has seen what runs (I5).
func TestI5ACardIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := asking(putTool(t, s, "delete_file", model.EffectUnsafe), "call_1")
	n.Call.Approval.Rule.Quorum = 1000 // so that it stays open
	call := register(t, s, registration("edited", n)).Turn.Calls[0]
	edited := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(edited)
		for i := range 300 {
			d := verdict(call, true, fmt.Sprint("person", i))
			input := fmt.Appendf(nil, `{"path":"%d"}`, i)
			d.Edit = &model.Edit{Input: input, Digest: model.Digest(tenant, call.ID, call.Tool.Name, call.Tool.Definition, input)}
			if _, err := s.Decide(t.Context(), tenant, d); err != nil {
				t.Errorf("edit %d: %v", i, err)
				return
			}
		}
	})
	cards := 0
	for over := false; !over; cards++ {
		select {
		case <-edited:
			over = true
		default:
		}
		card, err := s.Card(t.Context(), tenant, call.Approval.ID)
		if err != nil {
			t.Fatal(err)
		}
		c := card.Call
		if !bytes.Equal(c.Digest, model.Digest(tenant, c.ID, c.Tool.Name, c.Tool.Definition, card.Input)) {
			t.Fatalf("card %d shows %s with the digest of something else", cards, card.Input)
		}
	}
	all.Wait()
	if cards < 20 {
		t.Errorf("only %d cards were read", cards)
	}
}

// A decision whose commit was not known is answered as what it was: an answer
// among those that the quorum needs is not the verdict, though another's is
// given meanwhile.
func TestI3ALateAnswerSaysWhatItWas(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := asking(putTool(t, s, "delete_file", model.EffectUnsafe), "call_1")
	n.Call.Approval.Rule.Quorum = 2
	call := register(t, s, registration("late", n)).Turn.Calls[0]
	bob, eve := verdict(call, true, "bob"), verdict(call, false, "eve")
	for _, d := range []model.Decision{bob, eve} {
		if _, err := s.Decide(t.Context(), tenant, d); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		model.Decision
		want model.DecisionResult
	}{{bob, model.DecisionRecorded}, {eve, model.DecisionApplied}} {
		unseen := true // by an earlier try of the same request, whose answer was lost
		out, err := s.decideAll(t.Context(), tenant, []decideItem{{Decision: c.Decision, unseen: &unseen}})
		if err != nil || out[0].err != nil || out[0].value.Result != c.want {
			t.Errorf("%s is told %q (%v, %v), want %q", c.By.Subject, out[0].value.Result, err, out[0].err, c.want)
		}
	}
}
