package services

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Several models answer one message, as independent turns: each has its card,
// and whatever becomes of one of them, the others' cards stand, are shown on
// every node, and can be answered.
func TestSeveralModelsAnswerOneMessage(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(r scripted.Request) scripted.Answer {
		for _, m := range r.Messages {
			if m.Role == "assistant" && strings.Contains(m.Text(), "of a") {
				return speech("It was told what another model says.")
			}
		}
		if r.Last().Role == "tool" {
			return speech("Done, says c.")
		}
		return scripted.Stream(scripted.Call(0, "c", "delete_file", `{"path":"c"}`), scripted.End("tool_calls"))
	})
	d := servers(t)
	d.StartAPI(0)
	d.StartAPI(1)
	d.StartContinuer(0)
	d.StartWorker(0, p.env...)
	d.Ready()
	tool := &gated{may: make(chan struct{}, 10)}
	tool.toolServer = newToolServer(t, tool.answer)
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	for name, play := range map[string]func(*several){
		"each goes its own way": eachGoesItsOwnWay, "a message puts all of them aside": aMessagePutsAllAside,
		"one is made anew": oneIsMadeAnew,
	} {
		t.Run(name, func(t *testing.T) {
			s := &several{deployment: d.in(t), topic: strings.ReplaceAll(name, " ", "-"), tool: tool, names: map[string]string{}}
			play(s)
		})
	}
	d.holds()
}

// gated is a tool that answers when it may.
type gated struct {
	*toolServer
	may chan struct{}
}

func (g *gated) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g.may:
	case <-r.Context().Done():
	}
	_, _ = w.Write([]byte(`"gone"`))
}

// several is a conversation in which several models answer one message.
type several struct {
	*deployment
	topic string
	tool  *gated
	names map[string]string // of messages whose id is made by Countersign
}

// asksOf has a person ask, and the model loop answer with a card.
func (s *several) asksOf(model string) {
	s.T.Helper()
	must(s.T, second(s.Node(0).PostMessages(s.T.Context(), s.topic, client.MessagesRequest{Reply: true, Sink: &client.Sink{Type: "model"},
		Messages: []client.Message{{ID: "u", Role: "user", Parts: []client.Part{client.TextPart("Clean up.")}}}})))
	testcluster.Eventually(s.T, "the model asks", func(ctx context.Context) error {
		open, err := s.Node(1).Approvals(ctx, client.ApprovalFilter{State: "requested", Topic: s.topic})
		if err == nil && len(open.Items) != 1 {
			err = fmt.Errorf("%d cards", len(open.Items))
		}
		if err == nil {
			s.names[open.Items[0].MessageID] = model
		}
		return err
	})
}

// says opens a turn beside the others, and streams until its card is there.
func (s *several) says(node int, model string) (client.OpenAnswer, *writer) {
	s.T.Helper()
	turn := s.live(node, s.topic, client.OpenRequest{MessageID: model, WhileOpen: "parallel"})
	w := s.stream(node, s.topic, turn)
	w.say(`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"A word of `+model+`."}`, `{"type":"text-end","id":"t"}`,
		`{"type":"tool-input-available","toolCallId":"c","toolName":"delete_file","input":{"path":"`+s.topic+`"}}`)
	kinds(s.T, w.lines, "tool-input-available", "tool-approval-request")
	return turn, w
}

// card is the open card of a model's message.
func (s *several) card(model string) string {
	s.T.Helper()
	open, err := s.Node(1).Approvals(s.T.Context(), client.ApprovalFilter{State: "requested", Topic: s.topic})
	must(s.T, err)
	for _, card := range open.Items {
		if s.name(card.MessageID) == model {
			return card.ID
		}
	}
	s.T.Fatalf("%s has no open card: %+v", model, open.Items)
	return ""
}

func (s *several) decide(node int, model string, approved bool) {
	s.T.Helper()
	must(s.T, second(s.As(node, "user:bob").Decide(s.T.Context(), s.card(model), client.Decision{Approved: approved})))
}

func (s *several) name(message string) string {
	if name := s.names[message]; name != "" {
		return name
	}
	return message
}

// is waits until every node says this of the conversation: what the
// projection says, whose cards can be answered, whose stream a window gets,
// and the messages.
func (s *several) is(want string) {
	s.T.Helper()
	want = strings.TrimSpace(want)
	for node := range 2 {
		if !s.API[node].Running() {
			continue
		}
		testcluster.Eventually(s.T, fmt.Sprintf("node %d shows what is so", node), func(ctx context.Context) error {
			got, err := s.shown(ctx, node)
			if err == nil && got != want {
				err = fmt.Errorf("(-want +got)\n%s", gocmp.Diff(want, got))
			}
			return err
		})
	}
}

func (s *several) shown(ctx context.Context, node int) (string, error) {
	topic, err := s.Node(node).Topic(ctx, s.topic)
	if err != nil {
		return "", err
	}
	open, err := s.Node(node).Approvals(ctx, client.ApprovalFilter{State: "requested", Topic: s.topic})
	if err != nil {
		return "", err
	}
	page, err := s.Node(node).Messages(ctx, s.topic, client.Paging{})
	if err != nil {
		return "", err
	}
	var cards []string
	for _, card := range open.Items {
		cards = append(cards, card.MessageID)
	}
	lines := []string{fmt.Sprintf("%s; active:%s; waiting:%s; cards:%s; stream: %s", topic.Status, s.list(topic.ActiveExecutions),
		s.list(topic.AwaitingApprovalAnchors), s.list(cards), s.streams(ctx, node))}
	for _, m := range page.Items[1:] {
		lines = append(lines, s.name(m.ID)+":"+shape(m.Parts))
	}
	return strings.Join(lines, "\n"), nil
}

func (s *several) list(messages []string) (out string) {
	names := make([]string, len(messages))
	for i, id := range messages {
		names[i] = s.name(id)
	}
	slices.Sort(names)
	for _, name := range names {
		out += " " + name
	}
	return out
}

// streams tells which message a window that resumes is given; one that nobody
// has begun yet is waited for.
func (s *several) streams(ctx context.Context, node int) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response := s.resume(ctx, node, s.topic, "7")
	if response.StatusCode == http.StatusNoContent {
		return "none"
	}
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if strings.HasPrefix(line, ":") {
		return "waited for"
	}
	var start struct{ MessageID string }
	if err = errors.Join(err, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &start)); err != nil {
		return err.Error()
	}
	return s.name(start.MessageID)
}

// shape is what parts come to: texts, and the states of calls.
func shape(parts []client.Part) (out string) {
	for _, raw := range parts {
		var part struct{ Type, Text, State string }
		_ = json.Unmarshal(raw, &part)
		switch {
		case part.Type == "text":
			out += " " + part.Text
		case strings.HasPrefix(part.Type, "tool-"):
			out += " [" + part.State + "]"
		}
	}
	return out
}

const begins = `{"type":"text-start","id":"t"}`

func eachGoesItsOwnWay(s *several) {
	s.asksOf("c")
	a, talkOfA := s.says(0, "a")
	b, talkOfB := s.says(1, "b")
	s.is(`
streaming; active: a b; waiting: c; cards: a b c; stream: b
c: [approval-requested]
a: A word of a. [approval-requested]
b: A word of b. [approval-requested]`)
	talkOfA.say(`{"type":"finish"}`)
	s.is(`
streaming; active: b; waiting: a c; cards: a b c; stream: b
c: [approval-requested]
a: A word of a. [approval-requested]
b: A word of b. [approval-requested]`)

	// One is decided while another still speaks, and runs.
	s.decide(1, "a", true)
	s.is(`
streaming; active: a b; waiting: c; cards: b c; stream: b
c: [approval-requested]
a: A word of a. [approval-responded]
b: A word of b. [approval-requested]`)
	talkOfB.say(`{"type":"finish"}`)
	s.is(`
awaiting-approval; active: a; waiting: b c; cards: b c; stream: a
c: [approval-requested]
a: A word of a. [approval-responded]
b: A word of b. [approval-requested]`)
	windows := []<-chan string{s.window(s.T.Context(), 0, s.topic, "6"), s.window(s.T.Context(), 1, s.topic, "7")}
	s.tool.may <- struct{}{}
	next := s.stream(0, s.topic, s.live(0, s.topic, client.OpenRequest{Continues: a.Turn.ID}))
	next.say(begins, `{"type":"text-delta","id":"t","delta":"Done, says a."}`)
	s.is(`
streaming; active: a; waiting: b c; cards: b c; stream: a
c: [approval-requested]
a: A word of a. [output-available]
b: A word of b. [approval-requested]`)
	next.say(`{"type":"text-end","id":"t"}`, `{"type":"finish"}`)
	for _, window := range windows {
		var last string
		for line := range window {
			last = line
		}
		if last != "[DONE]" {
			s.T.Errorf("the window of a ended with %s", last)
		}
	}
	s.is(`
awaiting-approval; active:; waiting: b c; cards: b c; stream: none
c: [approval-requested]
a: A word of a. [output-available] Done, says a.
b: A word of b. [approval-requested]`)

	// The next one is denied, and its model fails: its node is killed, and it
	// gives up.
	s.decide(0, "b", false)
	failing := s.live(1, s.topic, client.OpenRequest{Continues: b.Turn.ID})
	w := s.stream(1, s.topic, failing)
	w.say(begins, `{"type":"text-delta","id":"t","delta":"Half"}`)
	s.is(`
streaming; active: b; waiting: c; cards: c; stream: b
c: [approval-requested]
a: A word of a. [output-available] Done, says a.
b: A word of b. [output-denied]`)
	s.API[1].Kill()
	must(s.T, second(s.Node(0).FinishTurn(s.T.Context(), s.topic, failing.Turn.ID,
		client.FinishRequest{Fence: w.Fence, Token: failing.Token, Error: "b cannot go on"})))
	s.is(`
awaiting-approval; active:; waiting: c; cards: c; stream: none
c: [approval-requested]
a: A word of a. [output-available] Done, says a.
b: A word of b. [output-denied]`)
	s.API[1].Start()
	s.API[1].Ready()

	// Somebody ends one more while it speaks: that one alone.
	ended, _ := s.says(1, "e")
	must(s.T, second(s.Node(0).Cancel(s.T.Context(), s.topic, ended.Turn.ID)))
	s.is(`
awaiting-approval; active:; waiting: c; cards: c; stream: none
c: [approval-requested]
a: A word of a. [output-available] Done, says a.
b: A word of b. [output-denied]
e: A word of e. [output-denied]`)

	// The one that waited all the time goes on as if it had been alone.
	s.decide(1, "c", true)
	s.tool.may <- struct{}{}
	s.is(`
done; active:; waiting:; cards:; stream: none
c: [output-available] Done, says c.
a: A word of a. [output-available] Done, says a.
b: A word of b. [output-denied]
e: A word of e. [output-denied]`)
	for call, n := range s.tool.runs(s.topic) {
		if n != 1 {
			s.T.Errorf("call %s ran %d times", call, n)
		}
	}
}

// runs counts the runs of each call, by what it deletes.
func (s *toolServer) runs(topic string) map[string]int {
	out := map[string]int{}
	for _, call := range s.ran() {
		if strings.Contains(call.body, topic) {
			out[call.call]++
		}
	}
	return out
}

// A person who writes on puts aside every card that is open.
func aMessagePutsAllAside(s *several) {
	s.asksOf("c")
	_, a := s.says(0, "a")
	a.say(`{"type":"finish"}`)
	_, _ = s.says(1, "b")
	s.chat(1, "7", writes(s.topic, "u2", "Never mind."))
	s.is(`
pending; active:; waiting:; cards:; stream: waited for
c: [output-denied]
a: A word of a. [output-denied]
b: A word of b. [output-denied]
u2: Never mind.`)
}

// A person who wants another answer of one model drops that, and what came
// after it; the cards before it stand.
func oneIsMadeAnew(s *several) {
	s.asksOf("c")
	for _, model := range []string{"a", "b"} {
		_, w := s.says(0, model)
		w.say(`{"type":"finish"}`)
	}
	again := fmt.Sprintf(`{"id":%q,"messages":[{"parts":[{"type":"text","text":"Clean up."}],"id":"u","role":"user"}],"trigger":"regenerate-message","messageId":"a"}`, s.topic)
	s.chat(1, "7", again)
	s.is(`
awaiting-approval; active:; waiting: c; cards: c; stream: waited for
c: [approval-requested]`)
	turn := s.replyTo(0, s.topic)
	s.names[turn.Message.ID] = "d"
	s.stream(0, s.topic, turn).say(begins, `{"type":"text-delta","id":"t","delta":"Anew."}`, `{"type":"text-end","id":"t"}`, `{"type":"finish"}`)
	s.decide(1, "c", false)
	s.is(`
done; active:; waiting:; cards:; stream: none
c: [output-denied] Done, says c.
d: Anew.`)
}
