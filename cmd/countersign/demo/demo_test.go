package demo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/cmd/countersign/dev"
	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/examples/chat/backend"
	"github.com/countersign/countersign/examples/workspace/workspace"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
)

// TestMain lets the test binary be the MCP server of the workspace, which the
// development system starts as a command of its own program.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "workspace" {
		if err := workspace.Serve(context.Background(), os.Args[3]); err != nil {
			os.Exit(1)
		}
		return
	}
	testservers.Main(m)
}

const patience = time.Minute

// system is a whole development system.
func system(t *testing.T) (devstate.State, *client.Client) {
	t.Helper()
	dir := testservers.Dir(t)
	ready := filepath.Join(t.TempDir(), "ready.json")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- dev.Run(ctx, dev.Options{Dir: dir, Listen: freeAddress(t), ReadyFile: ready, Out: io.Discard})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the system is ready", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the system ended: %v", err)
		default:
		}
		_, err := os.Stat(ready)
		return err == nil
	})
	state, err := devstate.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return state, client.New(state.URL, state.APIKey)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %s", patience, what)
		}
	}
}

// person looks at what the demo shows and types a line whenever it asks.
type person struct {
	mu    sync.Mutex
	shown bytes.Buffer
	types []string
	keys  *io.PipeWriter
}

func (p *person) Write(shown []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes.Contains(shown, []byte("Approve? ")) && len(p.types) > 0 {
		line := p.types[0]
		p.types = p.types[1:]
		go func() { _, _ = io.WriteString(p.keys, line+"\n") }()
	}
	return p.shown.Write(shown)
}

// play runs one demo with what a person types, one line per question, and
// gives what it showed. Without lines the demo answers by itself.
func play(t *testing.T, state devstate.State, c *client.Client, types ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	in, keys := io.Pipe()
	defer in.Close()
	p := &person{types: types, keys: keys}
	err := Run(ctx, Options{Client: c, URL: state.URL, Screen: terminal.Screen{Out: p, Width: 200}, In: in, Yes: len(types) == 0})
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shown.String(), err
}

// The demo tells the story to its end, whichever way a person decides; and
// with more backends than one, one of which dies in the middle, every
// conversation still goes on exactly once (I2).
func TestTheDemo(t *testing.T) {
	t.Parallel()
	state, c := system(t)
	t.Run("approved", func(t *testing.T) {
		out, err := play(t, state, c)
		holds(t, out, err, "waits for a person", "logs/2024-11.log", "Approved by key:dev", "deleted logs/2024-11.log",
			"Done: logs/2024-11.log is deleted", "exactly once")
	})
	t.Run("denied", func(t *testing.T) {
		out, err := play(t, state, c, "maybe", "no  keep it")
		holds(t, out, err, "Approve? yes, or no and why", "Denied by key:dev", "I left logs/2024-12.log where it is. The answer was: keep it")
	})
	t.Run("many backends", func(t *testing.T) { manyBackends(t, state, c) })
	t.Run("a webhook that nobody signed", func(t *testing.T) { unsigned(t, c) })
	t.Run("an unmodified chat client", func(t *testing.T) { unmodified(t, state, c) })
}

// unmodified posts what a bare useChat posts, and nothing of ours: it is
// answered as well, up to its card and, once that is approved, to the end.
func unmodified(t *testing.T, state devstate.State, c *client.Client) {
	body := `{"id":"bare","messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"Clean up the old logs"}]}],"trigger":"submit-message"}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, state.URL+"/api/chat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+state.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	told, err := io.ReadAll(response.Body)
	holds(t, string(told), err, `"type":"tool-approval-request"`, `"finishReason":"tool-calls"`, "[DONE]")
	cards, err := c.Approvals(t.Context(), client.ApprovalFilter{State: "requested", Topic: "bare"})
	if err != nil || len(cards.Items) != 1 {
		t.Fatalf("%d cards, %v", len(cards.Items), err)
	}
	if _, err := c.Decide(t.Context(), cards.Items[0].ID, client.Decision{Approved: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the conversation is done", func() bool {
		topic, err := c.Topic(t.Context(), "bare")
		return err == nil && topic.Status == "done"
	})
}

func holds(t *testing.T, out string, err error, wants ...string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v, after:\n%s", err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func manyBackends(t *testing.T, state devstate.State, c *client.Client) {
	o := backend.Options{URL: state.URL, Key: state.APIKey, Lease: time.Second, Log: slog.New(slog.DiscardHandler)}
	stop := run(t, o)
	defer stop()
	o.Think = time.Hour // it accepts and never answers, until it dies
	die := run(t, o)
	defer die()
	time.AfterFunc(2*time.Second, die)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			out, err := play(t, state, c, "no", "no", "no")
			holds(t, out, err, "exactly once")
		})
	}
	group.Wait()
	topics, err := c.Topics(t.Context(), client.TopicFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics.Items {
		page, err := c.Messages(t.Context(), topic.ID, client.Paging{})
		if err != nil {
			t.Fatal(err)
		}
		steps := bytes.Count(bytes.Join(partsOf(page.Items), nil), []byte(`"step-start"`))
		if topic.Status != "done" || len(page.Items) != 2 || steps != 3 {
			t.Errorf("%s is %s, with %d messages and %d turns", topic.ID, topic.Status, len(page.Items), steps)
		}
	}
}

func partsOf(messages []client.Message) (out [][]byte) {
	for _, m := range messages {
		for _, p := range m.Parts {
			out = append(out, p)
		}
	}
	return out
}

// run runs a backend until the returned function is called.
func run(t *testing.T, o backend.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := backend.Run(ctx, o); err != nil {
			t.Error(err)
		}
	}()
	return func() { cancel(); <-ended }
}

func unsigned(t *testing.T, c *client.Client) {
	page, err := c.Continuations(t.Context(), client.ContinuationFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range page.Items {
		if k.Sink == nil || k.Sink.Type != "webhook" {
			continue
		}
		response, err := http.Post(k.Sink.URL, "application/json", strings.NewReader(`{"type":"continuation.ready","data":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("status %d", response.StatusCode)
		}
		return
	}
	t.Error("no turn has a webhook")
}

// freeAddress gives an address on the loopback that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
