package watch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const (
	tenant = model.TenantID("acme")
	// never is a sweep that does not come within a test.
	never = time.Hour
	// patience is a deadline, not a duration: nothing here takes long.
	patience = 20 * time.Second
)

// node is one api node: its own connections, on servers that it shares.
type node struct {
	hub   *Hub
	store *store.Store // its commits are signalled
	mute  *store.Store // its commits are not: every signal is lost
	bus   *bus.Bus
	stop  func() // ends the hub
}

func newNode(t *testing.T, database, nats string, o Options) *node {
	t.Helper()
	n := &node{}
	var err error
	if n.bus, err = bus.Connect(nats, "api", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.bus.Close)
	n.store = openStore(t, database, n.publish)
	n.mute = openStore(t, database, nil)
	n.hub = New(n.bus, n.store, o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.hub.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	n.stop = func() { cancel(); <-ended }
	t.Cleanup(n.stop)
	if err := n.store.EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node hears signals", func() bool {
		w := n.hub.Watch(store.TopicKey{Tenant: tenant})
		defer w.Close()
		_ = n.bus.PublishSignals(t.Context(), []bus.Signal{{Tenant: tenant, Topic: "hello", Version: 1}})
		select {
		case <-w.Changed():
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
	return n
}

func (n *node) publish(changes []store.Change) {
	signals := make([]bus.Signal, len(changes))
	for i, c := range changes {
		signals[i] = bus.Signal{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version}
	}
	_ = n.bus.PublishSignals(context.Background(), signals)
}

func openStore(t *testing.T, database string, changed func([]store.Change)) *store.Store {
	t.Helper()
	s, err := store.New(database, store.Options{Changed: changed, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// alone is a node on servers of its own.
func alone(t *testing.T, o Options) *node {
	t.Helper()
	return newNode(t, testservers.Database(t, store.Migrate), testservers.NATS(t).URL(), o)
}

func key(topic string) store.TopicKey {
	return store.TopicKey{Tenant: tenant, Topic: model.TopicID(topic)}
}

// say appends a person's message, which makes one version.
func say(t *testing.T, s *store.Store, topic, id, text string) int64 {
	t.Helper()
	parts := fmt.Sprintf(`[{"type":"text","text":%q}]`, text)
	sum := sha256.Sum256([]byte(parts))
	out, err := s.AppendMessages(t.Context(), tenant, store.Appending{Topic: model.TopicID(topic), WhileOpen: store.WhileOpenParallel, Messages: []store.NewMessage{
		{ID: model.MessageID(id), Role: "user", Parts: []byte(parts), Content: sum[:]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return out.Topic.Version
}

// ask registers a turn with one call that asks.
func ask(t *testing.T, s *store.Store, topic, message string) *model.Call {
	t.Helper()
	id, input := model.NewCallID(), []byte(`{"path": "old.log"}`)
	sum := sha256.Sum256([]byte(topic + message))
	out, err := s.Register(t.Context(), store.Registration{
		Tenant: tenant, Topic: model.TopicID(topic), Message: model.MessageID(message), WhileOpen: store.WhileOpenParallel, Content: sum[:],
		Turn:  model.Turn{Execution: model.ExecuteWhenDecided, Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}},
		Parts: store.Parts{[]byte(`{"type":"step-start"}`), nil}, Expiry: time.Hour, Actor: "key:backend", Channel: "api",
		Calls: []store.NewCall{{Input: input, Call: model.Call{ID: id, Part: 1, ToolCallID: "c1", State: model.CallApprovalRequested,
			Tool:     model.CallTool{Name: "delete_file", Effect: model.EffectUnsafe, Executor: model.ExecutorCaller, MaxAttempts: 1},
			Digest:   model.Digest(tenant, id, "delete_file", nil, input),
			Approval: &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalRequested, Rule: model.Requirement{Quorum: 1}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Turn.Calls[0]
}

func deny(ctx context.Context, s *store.Store, c *model.Call) error {
	_, err := s.Decide(ctx, tenant, model.Decision{ID: model.NewToken(), Approval: c.Approval.ID, Reason: "no", Content: []byte("deny"),
		By: model.Principal{Tenant: tenant, Key: "ops", Subject: "user:bob", Roles: []model.Role{model.RoleApprover}}, Channel: "api"})
	return err
}

// eventually polls a condition until its deadline.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %s", patience, what)
		}
	}
}

// frame is one event as a client sees it.
type frame struct{ name, id, data string }

// client is an open stream.
type client struct {
	t      *testing.T
	status int
	lines  *bufio.Scanner
	close  func()
}

// follow opens a stream of a topic on n. last is a Last-Event-ID, or "".
func follow(t *testing.T, n *node, topic, last string, authorize func(context.Context) error) *client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, err := LastEventID(r)
		if err == nil {
			err = n.hub.Events(w, r, Subscription{Topic: key(topic), After: after, Key: "k", Authorize: authorize})
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusTeapot)
		}
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, status: response.StatusCode, lines: bufio.NewScanner(response.Body)}
	c.lines.Buffer(nil, 16<<20)
	c.close = func() { response.Body.Close(); server.CloseClientConnections(); server.Close() }
	t.Cleanup(c.close)
	return c
}

// next reads one event; comments are passed over. At the stream's end ok is
// false.
func (c *client) next() (f frame, ok bool) {
	for c.lines.Scan() {
		switch name, value, _ := strings.Cut(c.lines.Text(), ": "); name {
		case "event":
			f.name = value
		case "id":
			f.id = value
		case "data":
			f.data += value
		case "":
			if f.name != "" {
				return f, true
			}
		}
	}
	return f, false
}

// until reads up to a status event with this version, and gives the names and
// ids of all that came.
func (c *client) until(version int64) (got []frame) {
	c.t.Helper()
	for {
		f, ok := c.next()
		if !ok {
			c.t.Fatalf("the stream ended before version %d, after %v", version, outline(got))
		}
		got = append(got, f)
		if f.id == fmt.Sprint(version) {
			return got
		}
	}
}
