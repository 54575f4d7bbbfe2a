package services

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

// post sends what the AI SDK's client sends, and gives the response's chunks.
func (d *deployment) post(node int, key, sdk, body string) (int, <-chan string, string) {
	d.T.Helper()
	request, err := http.NewRequestWithContext(d.T.Context(), http.MethodPost, d.API[node].URL+"/api/chat?sdk="+sdk, strings.NewReader(body))
	must(d.T, err)
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(d.T, err)
	d.T.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		problem, _ := io.ReadAll(response.Body)
		return response.StatusCode, nil, string(problem)
	}
	lines := make(chan string, 100)
	go pass(response.Body, lines)
	return response.StatusCode, lines, ""
}

// chat posts what must be accepted.
func (d *deployment) chat(node int, sdk, body string) <-chan string {
	d.T.Helper()
	status, lines, problem := d.post(node, d.Key, sdk, body)
	if status != http.StatusOK {
		d.T.Fatalf("POST /api/chat: %d %s", status, problem)
	}
	return lines
}

// writes is a person's message as a client posts it.
func writes(topic, id, text string) string {
	return fmt.Sprintf(`{"id":%q,"messages":[{"parts":[{"type":"text","text":%q}],"id":%q,"role":"user"}],"trigger":"submit-message","extra":{"of":"the app"}}`,
		topic, text, id)
}

// posted is a client's post after its person answered the cards of a message.
func posted(topic, message string, parts ...string) string {
	return fmt.Sprintf(`{"id":%q,"messages":[{"id":%q,"role":"assistant","parts":[{"type":"step-start"},%s]}],"trigger":"submit-message","messageId":%q}`,
		topic, message, strings.Join(parts, ","), message)
}

// part is a client's tool part with its person's answer.
func part(call, input, approval string, approved bool) string {
	return fmt.Sprintf(`{"type":"tool-delete_file","toolCallId":%q,"state":"approval-responded","input":%s,"approval":{"id":%q,"approved":%v}}`,
		call, input, approval, approved)
}

// replyTo waits until a topic's message wants a reply, and opens the turn that
// gives it.
func (d *deployment) replyTo(node int, topic string) client.OpenAnswer {
	d.T.Helper()
	for {
		page, err := d.Node(node).Continuations(d.T.Context(), client.ContinuationFilter{Topic: topic, State: "ready"}, client.Wait(5*time.Second))
		must(d.T, err)
		if len(page.Items) > 0 {
			return d.live(node, topic, client.OpenRequest{Continues: page.Items[0].Turn})
		}
		must(d.T, d.T.Context().Err())
	}
}

func kinds(t *testing.T, lines <-chan string, want ...string) (last map[string]any) {
	t.Helper()
	for _, kind := range want {
		last = chunk(t, lines, kind)
	}
	return last
}

var speaks = []string{`{"type":"text-start","id":"1"}`, `{"type":"text-delta","id":"1","delta":"Done."}`, `{"type":"text-end","id":"1"}`, `{"type":"finish"}`}

// One conversation through the AI SDK's endpoint over two nodes: the message
// is posted to one, answered through the other, its card is answered in the
// next post, and the answer goes on in that response.
func TestAChatOverTwoNodes(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))

	first := d.chat(0, "6", writes("chat", "u", "Delete it."))
	turn := d.replyTo(1, "chat")
	w := d.stream(1, "chat", turn)
	w.say(`{"type":"start"}`, `{"type":"start-step"}`, `{"type":"tool-input-start","toolCallId":"c","toolName":"delete_file"}`,
		`{"type":"tool-input-available","toolCallId":"c","toolName":"delete_file","input":{"path":"x"}}`,
		`{"type":"finish-step"}`, `{"type":"finish","finishReason":"tool-calls"}`)
	if begin := chunk(t, first, "start"); begin["messageId"] != turn.Message.ID || turn.Message.ID == "" {
		t.Errorf("start: %v, want the message %q", begin, turn.Message.ID)
	}
	asked := kinds(t, first, "start-step", "tool-input-start", "tool-input-available", "tool-approval-request")
	if end := kinds(t, first, "finish-step", "finish"); end["finishReason"] != "tool-calls" {
		t.Errorf("the end: %v", end)
	}
	chunk(t, first, "[DONE]")
	if d.window(t.Context(), 0, "chat", "6") != nil {
		t.Error("a stream is open though people are waited for")
	}
	if again := d.chat(1, "6", writes("chat", "u", "Delete it.")); chunk(t, again, "start")["messageId"] != turn.Message.ID {
		t.Error("the same message posted again is another one")
	}

	next := d.chat(1, "6", posted("chat", turn.Message.ID, part("c", `{"path":"x"}`, asked["approvalId"].(string), true)))
	if begin := chunk(t, next, "start"); begin["messageId"] != turn.Message.ID {
		t.Errorf("start: %v", begin)
	}
	if out := chunk(t, next, "tool-output-available"); out["output"] != "gone" {
		t.Errorf("output: %v", out)
	}
	goOn := d.stream(0, "chat", d.live(0, "chat", client.OpenRequest{Continues: turn.Turn.ID}))
	goOn.say(speaks...)
	kinds(t, next, "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]")
	d.status("chat", "done")
	if ran := tool.ran(); len(ran) != 1 {
		t.Errorf("the tool ran %d times", len(ran))
	}
	page, err := d.Node(0).Messages(t.Context(), "chat", client.Paging{})
	if err != nil || len(page.Items) != 2 || page.Items[0].ID != "u" || len(page.Items[1].Parts) != 4 {
		t.Errorf("messages: %+v, %v", page.Items, err)
	}
	var decided struct{ DecidedBy, Channel string }
	card, err := d.Node(0).Approval(t.Context(), asked["approvalId"].(string))
	if err == nil {
		decided.DecidedBy, decided.Channel = card.Decision.DecidedBy, card.Decision.Channel
	}
	if err != nil || decided.Channel != "chat" || decided.DecidedBy != "key:all" {
		t.Errorf("the decision: %+v, %v", decided, err)
	}
}
