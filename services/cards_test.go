package services

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// I7: the moment a window shows a card, on whichever node, the card can be
// read and answered on every node: its row was committed before.
func TestI7EveryCardThatIsShownCanBeAnswered(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	var windows sync.WaitGroup
	for i := range 20 {
		topic := fmt.Sprintf("t%d", i)
		must(t, second(d.Node(0).PostMessages(ctx, topic, client.MessagesRequest{Messages: []client.Message{
			{ID: "u", Role: "user", Parts: []client.Part{client.TextPart("Delete it.")}}}})))
		shown := firstCard(ctx, d.Node(i%2), topic)
		windows.Go(func() {
			approval, open := <-shown
			if !open {
				t.Errorf("%s: no window showed the card", topic)
				return
			}
			for n := range 2 {
				if card, err := d.Node(n).Approval(ctx, approval); err != nil || card.State != "requested" {
					t.Errorf("%s: shown, and on node %d it is %q: %v", topic, n, card.State, err)
				}
			}
			if answer, err := d.Node((i+1)%2).Decide(ctx, approval, client.Decision{Approved: false}); err != nil || answer.Result != "applied" {
				t.Errorf("%s: answered at once: %s, %v", topic, answer.Result, err)
			}
		})
		must(t, second(d.Node((i+1)%2).RegisterTurn(ctx, topic, client.TurnRequest{MessageID: "m", Executor: "caller",
			Parts: []client.Part{client.ToolPart("delete_file", "c", json.RawMessage(`{"path":"x"}`))}})))
	}
	windows.Wait()
}

// firstCard follows a topic and gives the id of the first card that its window
// shows.
func firstCard(ctx context.Context, node *client.Client, topic string) <-chan string {
	shown := make(chan string, 1)
	go func() {
		defer close(shown)
		for e, err := range node.Events(ctx, topic, 0) {
			if err != nil {
				return
			}
			if e.Message == nil {
				continue
			}
			for _, raw := range e.Message.Parts {
				var part struct {
					State    string `json:"state"`
					Approval struct {
						ID string `json:"id"`
					} `json:"approval"`
				}
				if json.Unmarshal(raw, &part) == nil && part.State == "approval-requested" {
					shown <- part.Approval.ID
					return
				}
			}
		}
	}()
	return shown
}
