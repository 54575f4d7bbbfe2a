package services

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/client"
)

// The published clients of the AI SDK, of both versions, unmodified, in pages
// of React, through whole conversations on two nodes, with a backend that keeps
// its own model: bare, and kept by useCountersign. What their windows show is
// what is committed, and each approved call ran once.
func TestThePublishedClients(t *testing.T) {
	t.Parallel()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i)
		d.StartContinuer(i)
		d.StartWorker(i, "COUNTERSIGN_WORKER_LEASE=30s") // nobody dies here, and a busy machine commits claims late
	}
	d.Ready()
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))
	m := &chatModel{deployment: d, released: map[string]chan struct{}{}}
	release := httptest.NewServer(http.HandlerFunc(m.release))
	t.Cleanup(release.Close)
	ctx, stop := context.WithCancel(t.Context())
	var backend sync.WaitGroup
	backend.Go(func() { m.run(ctx) })
	t.Cleanup(func() { stop(); backend.Wait() })

	var clients sync.WaitGroup
	for _, version := range []int{6, 7} {
		for _, script := range []string{"drive.mjs", "together.mjs"} {
			clients.Go(func() {
				d.pages(map[string]any{"versions": []int{version}, "key": d.Key, "backend": release.URL}, script)
			})
		}
	}
	clients.Wait()
	ran := map[string]int{}
	for _, call := range tool.ran() {
		ran[call.call]++
	}
	for call, n := range ran {
		if n != 1 {
			t.Errorf("call %s ran %d times", call, n)
		}
	}
	if len(ran) < 2*13 {
		t.Errorf("%d calls ran", len(ran))
	}
	d.holds()
}

// pages runs a script of testdata/chat, with its pages on both nodes.
func (d *deployment) pages(in map[string]any, script string) {
	d.T.Helper()
	in["nodes"], in["only"] = []string{d.API[0].URL, d.API[1].URL}, os.Getenv("COUNTERSIGN_TEST_SCENARIO")
	var scripts []byte
	for _, name := range []string{"page.mjs", script} {
		text, err := os.ReadFile(filepath.Join("testdata/chat", name))
		must(d.T, err)
		scripts = append(scripts, text...)
	}
	hook, err := os.ReadFile("../examples/nextchat/useCountersign.ts")
	must(d.T, err)
	in["hook"] = string(hook)
	given, err := json.Marshal(in)
	must(d.T, err)
	run := exec.CommandContext(d.T.Context(), "node", "--input-type=module", "--eval", string(scripts), string(given))
	run.Dir = filepath.Dir(testnode.Packages(d.T, "testdata/chat")) // where it finds them
	run.Env = append(os.Environ(), "NODE_ENV=production")
	var said bytes.Buffer
	run.Stderr = &said
	out, err := run.Output()
	if err != nil {
		d.T.Errorf("%s: %v\n%s", script, err, said.Bytes())
	}
	played := 0
	for line := range bytes.Lines(out) {
		var scenario struct{ Name, Topic, Error string }
		must(d.T, json.Unmarshal(line, &scenario))
		if played++; scenario.Error != "" {
			d.T.Errorf("%s: %s", scenario.Topic, scenario.Error)
		}
	}
	if played == 0 {
		d.T.Errorf("%s: nothing was played\n%s", script, said.Bytes())
	}
}

// chatModel is a chat backend with a model of a few words: it answers whatever
// wants an answer, on either node.
type chatModel struct {
	*deployment
	mu       sync.Mutex
	released map[string]chan struct{} // by topic
	turns    sync.WaitGroup
	served   int
}

// run answers until it is stopped.
func (m *chatModel) run(ctx context.Context) {
	defer m.turns.Wait()
	for ctx.Err() == nil {
		page, err := m.Node(0).Continuations(ctx, client.ContinuationFilter{State: "ready"}, client.Wait(5*time.Second))
		if err != nil {
			continue
		}
		for _, c := range page.Items {
			m.served++
			node := m.served % 2
			open, err := m.Node(node).OpenTurn(ctx, c.Topic, client.OpenRequest{Continues: c.Turn})
			if err != nil { // superseded meanwhile
				continue
			}
			m.turns.Go(func() {
				if err := m.speak(ctx, node, c, open); err != nil && ctx.Err() == nil && !client.Is(err, "turn-ended") {
					m.T.Errorf("%s: the backend: %v", c.Topic, err)
				}
			})
		}
	}
}

// speak streams one step: calls at first, then the last words.
func (m *chatModel) speak(ctx context.Context, node int, c client.Continuation, open client.OpenAnswer) error {
	history, err := m.Node(node).Messages(ctx, c.Topic, client.Paging{})
	if err != nil {
		return err
	}
	var asks string
	for _, message := range history.Items {
		if message.Role == "user" {
			var text struct{ Text string }
			_ = json.Unmarshal(message.Parts[0], &text)
			asks = text.Text
		}
	}
	s, err := m.Node(node).StreamTurn(ctx, c.Topic, open)
	if err != nil {
		return err
	}
	defer s.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			if _, err := s.Next(); err != nil {
				return
			}
		}
	}()
	calls, held, first := map[string]int{"one": 1, "late": 1, "hold": 1, "two": 2}[asks], asks == "hold", c.MessageID != open.Message.ID
	if !first {
		calls, held = 0, asks == "late"
	}
	for _, line := range m.lines(c.Topic, calls) {
		if held && (line == finishStep || calls == 0) {
			if m.wait(ctx, c.Topic); ctx.Err() != nil {
				return ctx.Err()
			}
			held = false
		}
		if s.Send(json.RawMessage(line)) != nil {
			break // it was ended; its window is told by the rows
		}
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
	return nil
}

const finishStep = `{"type":"finish-step"}`

func (m *chatModel) lines(topic string, calls int) (lines []string) {
	lines = append(lines, `{"type":"start"}`, `{"type":"start-step"}`)
	for i := range calls {
		id, input := fmt.Sprintf("c%d", i), fmt.Sprintf(`{"path":"%s-%d"}`, topic, i)
		lines = append(lines, fmt.Sprintf(`{"type":"tool-input-start","toolCallId":%q,"toolName":"delete_file"}`, id),
			fmt.Sprintf(`{"type":"tool-input-delta","toolCallId":%q,"inputTextDelta":%q}`, id, input),
			fmt.Sprintf(`{"type":"tool-input-available","toolCallId":%q,"toolName":"delete_file","input":%s}`, id, input))
	}
	if calls > 0 {
		return append(lines, finishStep, `{"type":"finish","finishReason":"tool-calls"}`)
	}
	return append(lines, `{"type":"text-start","id":"1"}`, `{"type":"text-delta","id":"1","delta":"It is "}`,
		`{"type":"text-delta","id":"1","delta":"Done."}`, `{"type":"text-end","id":"1"}`, finishStep, `{"type":"finish","finishReason":"stop"}`)
}

// gate is closed when a topic is released.
func (m *chatModel) gate(topic string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released[topic] == nil {
		m.released[topic] = make(chan struct{})
	}
	return m.released[topic]
}

func (m *chatModel) wait(ctx context.Context, topic string) {
	select {
	case <-m.gate(topic):
	case <-ctx.Done():
	}
}

func (m *chatModel) release(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/release/") {
		close(m.gate(path.Base(r.URL.Path)))
	}
	_, _ = w.Write([]byte(`{}`))
}
