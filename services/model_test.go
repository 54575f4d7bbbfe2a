package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// provider is a scripted model for the model loop of a deployment.
type provider struct {
	*scripted.Server
	env []string // what a worker is told, to ask it
}

const providersKey = "sk-provider-secret"

func newProvider(t *testing.T, m scripted.Model) *provider {
	t.Helper()
	p := &provider{Server: scripted.New(m)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	p.env = []string{"COUNTERSIGN_MODEL_BASE_URL=" + server.URL + "/v1", "COUNTERSIGN_MODEL_NAME=scripted-1", "COUNTERSIGN_MODEL_API_KEY=" + providersKey,
		"COUNTERSIGN_MODEL_SYSTEM_PROMPT=Be brief.", "COUNTERSIGN_MODEL_POLL=500ms"}
	return p
}

// modelDeployment runs a node, a continuer and workers whose model loop asks p.
func modelDeployment(t *testing.T, p *provider, workers int) *deployment {
	t.Helper()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	for i := range workers {
		d.StartWorker(i, p.env...)
	}
	d.Ready()
	return d
}

// asks registers a turn with a call whose continuation the model loop answers.
func (d *deployment) asks(topic, call, tool, input string) client.TurnAnswer {
	d.T.Helper()
	must(d.T, second(d.Node(0).PostMessages(d.T.Context(), topic, client.MessagesRequest{Messages: []client.Message{
		{ID: topic + "-u", Role: "user", Parts: []client.Part{client.TextPart("Please clean up.")}}}})))
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: topic + "-m", RequestedBy: "user:alice",
		Parts: []client.Part{client.TextPart("I will."), client.ToolPart(tool, call, json.RawMessage(input))},
		Sink:  &client.Sink{Type: "model"}})
	must(d.T, err)
	return out
}

// messageOf waits for a status, and gives the parts of a message.
func (d *deployment) messageOf(topic, message, status string) []client.Part {
	d.T.Helper()
	d.status(topic, status)
	page, err := d.Node(0).Messages(d.T.Context(), topic, client.Paging{})
	must(d.T, err)
	for _, m := range page.Items {
		if m.ID == message {
			return m.Parts
		}
	}
	d.T.Fatalf("topic %s has no message %s: %+v", topic, message, page.Items)
	return nil
}

// One conversation: a person approves, the tool runs, the model asks for
// another call, is told what it gave, and answers.
func TestTheModelLoopGoesOn(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(r scripted.Request) scripted.Answer {
		if strings.Contains(r.Last().Text(), "gone") && r.N == 0 {
			return scripted.Stream(scripted.Say("One more. "), scripted.Call(0, "c1", "delete_file", `{"path":"y"}`), scripted.End("tool_calls"))
		}
		return scripted.Stream(scripted.Say("All is done."), scripted.End("stop"))
	})
	d := modelDeployment(t, p, 1)
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	first := d.asks("chat", "c1", "delete_file", `{"path":"x"}`)
	d.approve(first.Turn.Calls[0].ApprovalID)

	var card string
	testcluster.Eventually(t, "the model's call is asked about", func(ctx context.Context) error {
		open, err := d.Node(0).Approvals(ctx, client.ApprovalFilter{State: "requested"})
		if err == nil && len(open.Items) != 1 {
			err = fmt.Errorf("%d cards", len(open.Items))
		}
		if err != nil {
			return err
		}
		card = open.Items[0].ID
		return nil
	})
	d.approve(card)
	parts := d.messageOf("chat", "chat-m", "done")
	if got := string(parts[len(parts)-1]); !strings.Contains(got, "All is done.") {
		t.Errorf("the answer: %s", got)
	}
	if ran := tool.ran(); len(ran) != 2 {
		t.Errorf("the tool ran %d times", len(ran))
	}
	asked := p.Requests()
	if len(asked) != 2 || asked[0].Key != providersKey || asked[0].Model != "scripted-1" {
		t.Fatalf("the provider was asked: %+v", asked)
	}
	var roles []string
	for _, m := range asked[1].Messages {
		roles = append(roles, m.Role)
	}
	if got, want := strings.Join(roles, " "), "system user assistant tool assistant tool"; got != want {
		t.Errorf("the prompt: %s, want %s", got, want)
	}
}

// approve answers a card with yes.
func (d *deployment) approve(card string) {
	d.T.Helper()
	must(d.T, second(d.As(0, "user:bob").Decide(d.T.Context(), card, client.Decision{Approved: true})))
}
