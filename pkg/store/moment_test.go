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
