package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// models are one model for each conversation: a turn's own system prompt names
// which.
type models struct {
	mu   sync.Mutex
	of   map[string]scripted.Model
	seen map[string]int
}

// answer is the model of the request's conversation, which is told how often
// it was asked before.
func (m *models) answer(r scripted.Request) scripted.Answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	topic := r.Messages[0].Text()
	model := m.of[topic]
	if model == nil {
		return scripted.Answer{Status: http.StatusNotFound, Body: `{"error":{"message":"nobody answers with ` + r.Key + `"}}`}
	}
	r.N = m.seen[topic]
	m.seen[topic]++
	return model(r)
}

// chat is a conversation with a model of its own.
type chat struct {
	*deployment
	topic  string
	p      *provider
	models *models
	tool   *toolServer
}

func (c *chat) model(m scripted.Model) {
	c.models.mu.Lock()
	defer c.models.mu.Unlock()
	c.models.of[c.topic] = m
}

// replies are what the model says, one after the other.
func (c *chat) replies(answers ...scripted.Answer) {
	c.model(func(r scripted.Request) scripted.Answer { return answers[min(r.N, len(answers)-1)] })
}

func (c *chat) asked() int {
	c.models.mu.Lock()
	defer c.models.mu.Unlock()
	return c.models.seen[c.topic]
}

func (c *chat) sink() *client.Sink {
	return &client.Sink{Type: "model", System: c.topic, Model: "its-own"}
}

// say says something as a person, and asks for the model's reply.
func (c *chat) say(words string) {
	c.T.Helper()
	must(c.T, second(c.Node(0).PostMessages(c.T.Context(), c.topic, client.MessagesRequest{Reply: true, Sink: c.sink(),
		Messages: []client.Message{{ID: c.topic + "-u", Role: "user", Parts: []client.Part{client.TextPart(words)}}}})))
}

// wants registers a turn whose only call is asked about, and gives its card.
func (c *chat) wants() string {
	c.T.Helper()
	input, _ := json.Marshal(map[string]string{"path": c.topic})
	out, err := c.Node(0).RegisterTurn(c.T.Context(), c.topic, client.TurnRequest{MessageID: "m", Sink: c.sink(), RequestedBy: "user:alice",
		Parts: []client.Part{client.TextPart("I will."), client.ToolPart("delete_file", "c1", input)}})
	must(c.T, err)
	return out.Turn.Calls[0].ApprovalID
}

// told is the conversation's last prompt, a message to a line.
func (c *chat) told() string {
	var last scripted.Request
	for _, r := range c.p.Requests() {
		if r.Messages[0].Text() == c.topic {
			last = r
		}
	}
	var lines []string
	for _, m := range last.Messages {
		line := m.Role + ": " + m.Text()
		for _, call := range m.ToolCalls {
			line += "[" + call.Function.Name + " " + call.Function.Arguments + "]"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (c *chat) toldAll(want ...string) {
	c.T.Helper()
	if got := c.told(); got != strings.Join(append([]string{"system: " + c.topic}, want...), "\n") {
		c.T.Errorf("the model was told:\n%s", got)
	}
}

// done waits for the conversation's end, and gives the parts of its one
// assistant message.
func (c *chat) done() string {
	c.T.Helper()
	c.status(c.topic, "done")
	return c.parts()
}

func (c *chat) parts() string {
	c.T.Helper()
	page, err := c.Node(0).Messages(c.T.Context(), c.topic, client.Paging{})
	must(c.T, err)
	var out []string
	assistants := 0
	for _, m := range page.Items {
		if m.Role != "assistant" {
			continue
		}
		assistants++
		for _, p := range m.Parts {
			out = append(out, string(p))
		}
	}
	if assistants > 1 {
		c.T.Errorf("%d assistant messages", assistants)
	}
	return strings.Join(out, "\n")
}

// ran is how often the tool ran for this conversation.
func (c *chat) ran() (n int) {
	for _, call := range c.tool.ran() {
		if strings.Contains(call.body, c.topic) {
			n++
		}
	}
	return n
}

// card waits until the conversation asks somebody.
func (c *chat) card() (id string) {
	c.T.Helper()
	testcluster.Eventually(c.T, "somebody is asked", func(ctx context.Context) error {
		open, err := c.Node(0).Approvals(ctx, client.ApprovalFilter{State: "requested", Topic: c.topic})
		if err == nil && len(open.Items) != 1 {
			err = fmt.Errorf("%d cards", len(open.Items))
		}
		if err != nil {
			return err
		}
		id = open.Items[0].ID
		return nil
	})
	return id
}

func (c *chat) decide(card string, d client.Decision) {
	c.T.Helper()
	must(c.T, second(c.As(0, "user:bob").Decide(c.T.Context(), card, d)))
}

// has says that a text holds everything that is wanted.
func (c *chat) has(text string, want ...string) {
	c.T.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			c.T.Errorf("it lacks %s:\n%s", w, text)
		}
	}
}

func speech(words string) scripted.Answer {
	return scripted.Stream(scripted.Say(words), scripted.End("stop"))
}

// What a model may do, what it is told of what people and policies made of
// it, and how its provider may fail: one deployment, a conversation each.
func TestTheWaysOfTheModelLoop(t *testing.T) {
	t.Parallel()
	m := &models{of: map[string]scripted.Model{}, seen: map[string]int{}}
	p := newProvider(t, m.answer)
	d := modelDeployment(t, p, 2)
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	must(t, second(d.Node(0).PutTool(t.Context(), "look", tool.tool("read"))))
	ways := map[string]func(*chat){
		"a message is answered": messageIsAnswered, "a denial is told": denialIsTold, "an edit is told": editIsTold,
		"bad arguments are told": badArgumentsAreTold, "a tool that is not offered": toolIsNotOffered,
		"more calls than a step holds": tooManyCalls, "a busy provider": busyProvider, "a provider that refuses": refusingProvider,
		"an answer breaks off": answerBreaksOff, "an answer breaks off after a call": answerBreaksOffAfterACall,
		"a provider that speaks nonsense": nonsense, "a conversation is cancelled": conversationIsCancelled,
	}
	t.Run("ways", func(t *testing.T) {
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				way(&chat{d.in(t), strings.ReplaceAll(name, " ", "-"), p, m, tool})
			})
		}
	})
	for _, w := range d.Workers {
		if said := w.Log.Tail(100_000); strings.Contains(said, providersKey) || strings.Contains(said, "panic") {
			t.Error("a worker's log has the provider's key, or a panic")
		}
	}
	d.breaksNothing()
}

func messageIsAnswered(c *chat) {
	c.replies(speech("Hello you."))
	c.say("Hi")
	c.has(c.done(), `"text":"Hello you."`)
	c.toldAll("user: Hi")
	for _, r := range c.p.Requests() {
		if r.Messages[0].Text() == c.topic && r.Model != "its-own" {
			c.T.Errorf("the turn's own model was not asked, but %s", r.Model)
		}
	}
}

func denialIsTold(c *chat) {
	c.replies(speech("Then I leave it."))
	c.decide(c.wants(), client.Decision{Reason: "Not today."})
	c.has(c.done(), "Then I leave it.")
	c.toldAll(`assistant: I will.[delete_file {"path":"`+c.topic+`"}]`, "tool: Not today.")
	if n := c.ran(); n != 0 {
		c.T.Errorf("a denied call ran %d times (I6)", n)
	}
}

func editIsTold(c *chat) {
	c.replies(speech("As you like."))
	edited := `{"path":"` + c.topic + `/edited"}`
	c.decide(c.wants(), client.Decision{Approved: true, UpdatedInput: json.RawMessage(edited)})
	c.has(c.done(), "As you like.", "data-countersign-note")
	told := c.told()
	c.has(told, "assistant: I will.[delete_file "+edited+"]\ntool: gone\nuser: [A note of the system")
}

func badArgumentsAreTold(c *chat) {
	c.replies(scripted.Stream(scripted.Call(0, "b", "delete_file", `{"path":`), scripted.End("tool_calls")),
		scripted.Stream(scripted.Call(0, "b", "delete_file", `{"way":1}`), scripted.End("tool_calls")), speech("I give up."))
	c.say("Delete it")
	c.has(c.done(), "I give up.")
	c.toldAll("user: Delete it", `assistant: [delete_file {"input":"{\"path\":"}]`, "tool: The arguments are not valid JSON. The tool did not run.",
		`assistant: [delete_file {"way":1}]`, c.line("tool: The input does not fit"))
	if n := c.asked(); n != 3 {
		c.T.Errorf("the model was asked %d times", n)
	}
}

// line is the line of the last prompt that begins so.
func (c *chat) line(begin string) string {
	for line := range strings.Lines(c.told()) {
		if strings.HasPrefix(line, begin) {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return begin
}

func toolIsNotOffered(c *chat) {
	c.replies(scripted.Stream(scripted.Call(0, "b", "delete_file", `{"path":"`+c.topic+`"}`), scripted.End("tool_calls")), speech("A pity."))
	sink := c.sink()
	sink.Tools = []string{"look"}
	must(c.T, second(c.Node(0).PostMessages(c.T.Context(), c.topic, client.MessagesRequest{Reply: true, Sink: sink,
		Messages: []client.Message{{ID: "u", Role: "user", Parts: []client.Part{client.TextPart("Delete it")}}}})))
	c.has(c.done(), "A pity.")
	c.has(c.told(), "tool: This tool is none of those that the model may call here. It did not run.")
	if n := c.ran(); n != 0 {
		c.T.Errorf("it ran %d times", n)
	}
	for _, r := range c.p.Requests() {
		if r.Messages[0].Text() == c.topic && (len(r.Tools) != 1 || r.Tools[0].Function.Name != "look") {
			c.T.Errorf("the model was offered %+v", r.Tools)
		}
	}
}

func tooManyCalls(c *chat) {
	var calls [][]scripted.Event
	for i := range 70 {
		calls = append(calls, scripted.Call(i, fmt.Sprint("b", i), "look", `{"path":"`+c.topic+`"}`))
	}
	c.replies(scripted.Stream(append(calls, scripted.End("tool_calls"))...), speech("Enough."))
	c.say("Look everywhere")
	parts := c.done()
	c.has(parts, "Enough.")
	if n := strings.Count(parts, `"type":"tool-look"`); n != 64 || c.ran() != 64 {
		c.T.Errorf("%d calls, of which %d ran", n, c.ran())
	}
}

func busyProvider(c *chat) {
	c.replies(scripted.Answer{Status: 429, RetryAfter: "0.2", Body: `{"error":{"message":"slow down"}}`},
		scripted.Answer{Status: 500, Body: "<html>"}, speech("At last."))
	c.say("Hi")
	c.has(c.done(), "At last.")
	if n := c.asked(); n != 3 {
		c.T.Errorf("the provider was asked %d times", n)
	}
}

// A provider that cannot be asked: the conversation says error, with the
// reason and without the key, until somebody redrives it.
func refusingProvider(c *chat) {
	card := c.wants()
	c.decide(card, client.Decision{Approved: true})
	c.status(c.topic, "error")
	page, err := c.Node(0).Continuations(c.T.Context(), client.ContinuationFilter{Topic: c.topic})
	must(c.T, err)
	failed := page.Items[0]
	c.has(failed.LastError, "404", "nobody answers")
	if failed.State != "failed" || strings.Contains(failed.LastError, providersKey) {
		c.T.Errorf("the continuation: %+v", failed)
	}
	if c.window(c.T.Context(), 0, c.topic, "7") != nil {
		c.T.Error("a window's stream is open, though nobody answers")
	}
	c.replies(speech("Now I can."))
	must(c.T, second(c.Node(0).Redrive(c.T.Context(), failed.ID)))
	c.has(c.done(), "Now I can.", "gone")
	if n := c.ran(); n != 1 {
		c.T.Errorf("the tool ran %d times", n)
	}
}

// What an answer said that broke off does not count, and the windows are told.
func answerBreaksOff(c *chat) {
	seen := make(chan struct{})
	first := append(scripted.Say("Half an"), scripted.Event{Cut: true, Before: func(ctx context.Context) {
		select {
		case <-seen:
		case <-ctx.Done():
		}
	}})
	c.replies(scripted.Answer{Events: first}, speech("Whole."))
	c.say("Hi")
	var window <-chan string
	testcluster.Eventually(c.T, "the answer streams", func(context.Context) error {
		if window = c.window(c.T.Context(), 0, c.topic, "7"); window == nil {
			return fmt.Errorf("nothing is active")
		}
		return nil
	})
	for _, kind := range []string{"start", "start-step", "text-start", "text-delta", "text-delta"} {
		chunk(c.T, window, kind)
	}
	close(seen)
	for _, kind := range []string{"reset-step", "start-step", "text-start", "text-delta", "text-end", "finish-step", "finish", "[DONE]"} {
		chunk(c.T, window, kind)
	}
	if parts := c.done(); strings.Contains(parts, "Half") || !strings.Contains(parts, "Whole.") {
		c.T.Errorf("the answer: %s", parts)
	}
}

// A call that was committed before its answer broke off stands, and is gone on
// from.
func answerBreaksOffAfterACall(c *chat) {
	call := `{"path":"` + c.topic + `"}`
	first := append(scripted.Call(0, "b", "delete_file", call), scripted.Call(1, "b2", "delete_file", call)[0], scripted.Event{Cut: true})
	c.replies(scripted.Answer{Events: first}, speech("Done."))
	c.say("Delete it")
	c.decide(c.card(), client.Decision{Approved: true})
	parts := c.done()
	c.has(parts, "Done.")
	if n := strings.Count(parts, `"type":"tool-`); n != 1 || c.ran() != 1 || c.asked() != 2 {
		c.T.Errorf("%d calls, ran %d times, asked %d times", n, c.ran(), c.asked())
	}
}

func nonsense(c *chat) {
	c.replies(scripted.Answer{Events: []scripted.Event{{Data: "{not json"}}}, scripted.Answer{Events: []scripted.Event{{Data: `{"error":{"message":"overloaded"}}`}}},
		scripted.Answer{Events: scripted.Say("No end")}, speech("Sense."))
	c.say("Hi")
	c.has(c.done(), "Sense.")
	if n := c.asked(); n != 4 {
		c.T.Errorf("the provider was asked %d times", n)
	}
}

// Whoever cancels a conversation while the model speaks is heard: nothing of
// the answer counts.
func conversationIsCancelled(c *chat) {
	speaks, cancelled := make(chan struct{}), make(chan struct{})
	events := scripted.Stream(scripted.Say("Never mind this"), scripted.End("stop")).Events
	events[2].Before = func(ctx context.Context) {
		close(speaks)
		select {
		case <-cancelled:
		case <-ctx.Done():
		}
	}
	c.replies(scripted.Answer{Events: events})
	c.say("Hi")
	<-speaks
	must(c.T, second(c.Node(0).Cancel(c.T.Context(), c.topic, "")))
	close(cancelled)
	c.status(c.topic, "aborted")
	if parts := c.parts(); strings.Contains(parts, "mind") {
		c.T.Errorf("what was cancelled counts: %s", parts)
	}
}
