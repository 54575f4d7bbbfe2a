package services

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/pkg/client"
)

// The nodes that stream are killed by SIGKILL at every chunk of an answer with
// a card, and of the one that follows it: the worker whose model loop answers,
// and the api node through which a backend streams and to which windows
// listen. Two windows of the published clients are open on each conversation,
// of either version, on either node. Each conversation ends, its tool ran once,
// and both windows show what is committed. One kill does all of it: every
// conversation is held at another chunk.
func TestI8ANodeDiesAtEveryChunkUnderTwoWindows(t *testing.T) {
	t.Parallel()
	h := &held{killed: make(chan struct{})}
	p := newProvider(t, h.speak)
	d := servers(t)
	d.StartAPI(0)
	d.StartAPI(1)
	d.StartContinuer(0)
	d.StartWorker(0, p.env...)
	d.Ready()
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	topics := h.conversations()
	var windows sync.WaitGroup
	for by, sink := range map[string]*client.Sink{"loop": {Type: "model"}, "backend": nil} {
		key, err := d.Node(0).PutKey(t.Context(), by, client.Key{Roles: []string{"backend"}, TokensDecide: true, Sink: sink})
		must(t, err)
		windows.Go(func() {
			d.pages(map[string]any{"versions": []int{6, 7}, "key": key.Key, "topics": topics[by]}, "killed.mjs")
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var backend sync.WaitGroup
	backend.Go(func() { h.answer(ctx, d) })
	t.Cleanup(func() { stop(); backend.Wait() })

	h.waits.Wait()
	d.Workers[0].Kill()
	d.API[1].Kill()
	close(h.killed)
	d.loseStreams()
	d.Workers[0].Start()
	d.API[1].Start()
	windows.Wait()

	ran := map[string]int{}
	for _, call := range tool.ran() {
		ran[call.body]++
	}
	for input, n := range ran {
		if n != 1 {
			t.Errorf("%s ran %d times", input, n)
		}
	}
	if want := len(topics["loop"]) + len(topics["backend"]); len(ran) != want {
		t.Errorf("%d tools ran, want %d", len(ran), want)
	}
	d.breaksNothing()
}

// held are models that stop at a chunk until their node is killed.
type held struct {
	waits  sync.WaitGroup
	killed chan struct{}
	mu     sync.Mutex
	places map[string]place // by topic; each is taken once
}

// place is a chunk of an answer.
type place struct{ answer, chunk int }

// conversation is one for the windows.
type conversation struct {
	Topic   string `json:"topic"`
	Version int    `json:"version"`
}

// conversations are one for every chunk of either answer, of either way to
// stream. The versions take turns in which of them is at which node.
func (h *held) conversations() map[string][]conversation {
	h.places = map[string]place{}
	out := map[string][]conversation{}
	for by, chunks := range map[string][2]int{
		"loop":    {len(modelEvents(0, "")), len(modelEvents(1, ""))},
		"backend": {len(backendLines(0, "")), len(backendLines(1, ""))},
	} {
		for answer, n := range chunks {
			for chunk := range n {
				topic := fmt.Sprintf("%s-%d-%02d", by, answer, chunk)
				h.places[topic] = place{answer, chunk}
				h.waits.Add(1)
				out[by] = append(out[by], conversation{topic, 6 + chunk%2})
			}
		}
	}
	return out
}

// take tells before which chunk of an answer to stop, or -1.
func (h *held) take(topic string, answer int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, found := h.places[topic]
	if !found || at.answer != answer {
		return -1
	}
	delete(h.places, topic)
	return at.chunk
}

func modelEvents(answer int, topic string) []scripted.Event {
	if answer > 0 {
		return speech("It is Done.").Events
	}
	return scripted.Stream(scripted.Say("I delete it."), scripted.Call(0, "c", "delete_file", `{"path":"`+topic+`"}`), scripted.End("tool_calls")).Events
}

// speak is the model that the loop asks.
func (h *held) speak(r scripted.Request) scripted.Answer {
	topic, answer := "", 0
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			topic = m.Text()
		case "tool":
			answer = 1
		}
	}
	events := modelEvents(answer, topic)
	if at := h.take(topic, answer); at >= 0 {
		events[at].Before = func(ctx context.Context) {
			h.waits.Done()
			<-ctx.Done() // until the worker is dead
		}
	}
	return scripted.Answer{Events: events}
}

func backendLines(answer int, topic string) []string {
	input := `{"path":"` + topic + `"}`
	words, end := "I delete it.", []string{`{"type":"tool-input-start","toolCallId":"c","toolName":"delete_file"}`,
		fmt.Sprintf(`{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":%q}`, input),
		`{"type":"tool-input-available","toolCallId":"c","toolName":"delete_file","input":` + input + `}`,
		finishStep, `{"type":"finish","finishReason":"tool-calls"}`}
	if answer > 0 {
		words, end = "It is Done.", []string{finishStep, `{"type":"finish","finishReason":"stop"}`}
	}
	out := []string{`{"type":"start"}`, `{"type":"start-step"}`, `{"type":"text-start","id":"t"}`}
	for word := range strings.SplitAfterSeq(words, " ") {
		out = append(out, fmt.Sprintf(`{"type":"text-delta","id":"t","delta":%q}`, word))
	}
	return append(append(out, `{"type":"text-end","id":"t"}`), end...)
}

// answer is the backend: it accepts what is ready and streams the answer
// through the node that is killed, and afterwards through the other one.
func (h *held) answer(ctx context.Context, d *deployment) {
	var turns sync.WaitGroup
	defer turns.Wait()
	for ctx.Err() == nil {
		node := 1
		select {
		case <-h.killed:
			node = 0
		default:
		}
		page, err := d.Node(0).Continuations(ctx, client.ContinuationFilter{State: "ready"}, client.Wait(time.Second))
		if err != nil {
			continue
		}
		for _, c := range page.Items {
			if c.Sink.Type == "model" {
				continue
			}
			if open, err := d.Node(node).OpenTurn(ctx, c.Topic, client.OpenRequest{Continues: c.Turn}); err == nil {
				turns.Go(func() { h.stream(ctx, d.Node(node), c, open) })
			}
		}
	}
}

// stream sends an answer; one whose node dies is answered anew by whoever
// accepts its continuation next.
func (h *held) stream(ctx context.Context, node *client.Client, c client.Continuation, open client.OpenAnswer) {
	s, err := node.StreamTurn(ctx, c.Topic, open)
	if err != nil {
		return
	}
	defer s.Close()
	answer := 0
	if c.MessageID == open.Message.ID {
		answer = 1
	}
	at := h.take(c.Topic, answer)
	for i, line := range backendLines(answer, c.Topic) {
		if i == at {
			h.waits.Done()
			<-h.killed
		}
		if s.Send(json.RawMessage(line)) != nil {
			return
		}
	}
	for err == nil { // until it is committed
		_, err = s.Next()
	}
}
