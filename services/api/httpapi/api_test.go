package httpapi

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/status"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/aisdk"
	"github.com/countersign/countersign/services/api/watch"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// system is one api node on servers of its own, with keys of two tenants.
type system struct {
	t        *testing.T
	store    *store.Store
	database string
	url      string
	sql      *sql.DB
	keys     map[string]string // by name; tokens, too
	log      logged
	waits    *waits
}

// waits knows how many requests wait for a topic's change now.
type waits struct {
	*watch.Hub
	now atomic.Int32
}

func (w *waits) Wait(ctx context.Context, key store.TopicKey, after int64) error {
	w.now.Add(1)
	defer w.now.Add(-1)
	return w.Hub.Wait(ctx, key, after)
}

// logged is what the node has logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// acme is the tenant that tests play in, other the one that must not matter.
const (
	acme  = model.TenantID("acme")
	other = model.TenantID("other")
)

var everyRole = []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}

// newSystem starts a node; with may change its bounds.
func newSystem(t *testing.T, with ...func(*Limits)) *system {
	t.Helper()
	return newSigningSystem(t, nil, with...)
}

// newSigningSystem starts a node that signs what chat clients are asked.
func newSigningSystem(t *testing.T, signer *uistream.Signer, with ...func(*Limits)) *system {
	t.Helper()
	s := &system{t: t, database: testservers.Database(t, store.Migrate), keys: map[string]string{}}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	b := must(bus.Connect(testservers.NATS(t).URL(), "api", log))(t)
	t.Cleanup(b.Close)
	s.store = must(store.New(s.database, store.Options{Log: log, Changed: b.Announce}))(t)
	t.Cleanup(s.store.Close)
	cache := must(status.New(testservers.Redis(t), log, status.WithEpoch(s.store.Epoch)))(t)
	t.Cleanup(func() { _ = cache.Close() })
	hub := watch.New(b, s.store, watch.Options{Log: log, Sweep: 200 * time.Millisecond, Sign: aisdk.Signs(signer, uistream.V6)})
	projection := watch.NewProjection(b, s.store, cache, log, 0)
	s.run(hub.Run)
	s.run(projection.Run)
	s.waits = &waits{Hub: hub}
	limits := Limits{DefaultExpiry: time.Hour, Body: 1 << 20}
	for _, change := range with {
		change(&limits)
	}
	server := httptest.NewServer(New(Deps{
		Store: s.store, Waiter: s.waits, Projections: projection, Events: hub, Log: log,
		Windows: aisdk.NewWindows(s.store, hub, b, signer, time.Minute, log), Intake: &aisdk.Intake{Chunks: b, Signer: signer, Log: log},
		Sign:           aisdk.Signs(signer, uistream.V6),
		TracerProvider: sdktrace.NewTracerProvider(), MeterProvider: noop.NewMeterProvider(), Propagator: propagation.TraceContext{},
	}, limits, Origins{pageOrigin}))
	t.Cleanup(server.Close)
	s.url = server.URL
	s.key(acme, store.KeyRow{Name: "root", Roles: everyRole})
	s.key(acme, store.KeyRow{Name: "backend", Roles: []model.Role{model.RoleBackend}})
	s.key(acme, store.KeyRow{Name: "people", Roles: []model.Role{model.RoleApprover}, ActsFor: true})
	s.key(acme, store.KeyRow{Name: "viewer", Roles: []model.Role{model.RoleViewer}})
	s.key(other, store.KeyRow{Name: "stranger", Roles: everyRole})
	return s
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// run runs a part of the node until the test ends.
func (s *system) run(part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := part(ctx); err != nil {
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
}

func (s *system) key(tenant model.TenantID, k store.KeyRow) {
	s.t.Helper()
	if err := s.store.EnsureTenant(s.t.Context(), tenant); err != nil {
		s.t.Fatal(err)
	}
	s.keys[k.Name] = store.NewKey()
	if _, err := s.store.PutKey(s.t.Context(), tenant, k, s.keys[k.Name], "test", "test"); err != nil {
		s.t.Fatal(err)
	}
}

// call is one request of a test.
type call struct {
	key    string // a key's name; "" is root
	method string
	path   string
	body   string
	header map[string]string
}

// result is what was answered.
type result struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
	doc    map[string]any
}

func (s *system) do(c call) result {
	s.t.Helper()
	if c.method == "" {
		c.method = http.MethodGet
	}
	r := must(http.NewRequestWithContext(s.t.Context(), c.method, s.url+c.path, strings.NewReader(c.body)))(s.t)
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	key := c.key
	if key == "" {
		key = "root"
	}
	if key != "nobody" {
		r.Header.Set("Authorization", "Bearer "+s.keys[key])
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	response := must(http.DefaultClient.Do(r))(s.t)
	defer response.Body.Close()
	out := result{t: s.t, status: response.StatusCode, header: response.Header, body: must(io.ReadAll(response.Body))(s.t)}
	_ = json.Unmarshal(out.body, &out.doc) // not every answer is an object
	return out
}

func (s *system) get(path string) result { s.t.Helper(); return s.do(call{path: path}) }
func (s *system) post(path, body string) result {
	s.t.Helper()
	return s.do(call{method: http.MethodPost, path: path, body: body})
}
func (s *system) put(path, body string) result {
	s.t.Helper()
	return s.do(call{method: http.MethodPut, path: path, body: body})
}

// want checks the status.
func (r result) want(status int) result {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	return r
}

// problem checks that the answer is that problem, with all that every problem
// has.
func (r result) problem(status int, name string) result {
	r.t.Helper()
	r.want(status)
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		r.t.Errorf("content type %q", got)
	}
	if r.text("type") != "/problems/"+name {
		r.t.Errorf("type %s, want %s: %s", r.text("type"), name, r.body)
	}
	if r.at("status") != float64(status) || r.text("title") == "" || r.text("detail") == "" || r.text("instance") == "" {
		r.t.Errorf("incomplete problem: %s", r.body)
	}
	return r
}

// at walks the document: "turn.calls.0.id".
func (r result) at(path string) any {
	r.t.Helper()
	var v any = r.doc
	for _, step := range strings.Split(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

func (r result) text(path string) string {
	r.t.Helper()
	text, _ := r.at(path).(string)
	return text
}

func (r result) is(path string, want any) result {
	r.t.Helper()
	got := r.at(path)
	if n, ok := want.(int); ok {
		want = float64(n)
	}
	if got != want {
		r.t.Errorf("%s is %v, want %v in %s", path, got, want, r.body)
	}
	return r
}

// toolPart is a tool part that makes a call.
func toolPart(tool, id, input string) string {
	return fmt.Sprintf(`{"type":"tool-%s","toolCallId":%q,"state":"input-available","input":%s}`, tool, id, input)
}

// ask registers a turn with one call of a tool that nobody defined, run by
// the caller, which is therefore asked about.
func (s *system) ask(topic, message string, more ...string) result {
	s.t.Helper()
	body := fmt.Sprintf(`{"messageId":%q,"executor":"caller","parts":[%s]%s}`, message, toolPart("danger", "c1", `{"a":1}`), strings.Join(more, ""))
	return s.post("/v1/topics/"+url.PathEscape(topic)+"/turns", body).want(http.StatusCreated)
}

// rows counts all rows that requests can write.
func (s *system) rows() string {
	s.t.Helper()
	var out bytes.Buffer
	for _, table := range []string{
		"topics", "messages", "turns", "calls", "approvals", "decisions", "attempts", "continuations", "audit", "tools", "mcp_servers",
		"policies", "keys", "signing_secrets", "topic_settings",
	} {
		fmt.Fprintf(&out, "%s %d\n", table, s.number("select count(*) from "+table))
	}
	fmt.Fprintf(&out, "versions %d\n", s.number("select coalesce(sum(version), 0) from topics"))
	return out.String()
}

// number asks the database.
func (s *system) number(query string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db().QueryRowContext(s.t.Context(), query, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// exec makes happen in the database what takes long in life, such as the end
// of a deadline.
func (s *system) exec(statement string, args ...any) {
	s.t.Helper()
	if _, err := s.db().ExecContext(s.t.Context(), statement, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) db() *sql.DB {
	s.t.Helper()
	if s.sql == nil {
		s.sql = must(sql.Open("pgx", s.database))(s.t) // the driver is the store's
		s.t.Cleanup(func() { _ = s.sql.Close() })
	}
	return s.sql
}
