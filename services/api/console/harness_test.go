package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/services/api/watch"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const tenant = model.TenantID("acme")

// system is a console on servers of its own, with three keys.
type system struct {
	t     *testing.T
	url   string
	store *store.Store
	cases *approval.Service
}

func start(t *testing.T) *system {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	signals, err := bus.Connect(testservers.NATS(t).URL(), "api", log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(signals.Close)
	rows, err := store.New(testservers.Database(t, store.Migrate), store.Options{Changed: func(changes []store.Change) {
		for _, c := range changes {
			_ = signals.PublishSignals(context.Background(), []bus.Signal{{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version}})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rows.Close)
	s := &system{t: t, store: rows, cases: approval.New(rows, time.Hour)}
	s.keys()
	hub := watch.New(signals, rows, watch.Options{Sweep: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = hub.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	server := httptest.NewServer(New(Options{Rows: rows, UseCases: s.cases, Hub: hub, Authenticate: rows.Authenticate, StillKnown: rows.Authenticate, Log: log, Chat: true}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	s.url = server.URL
	return s
}

// keys makes the key "all", which may do everything and act for people,
// "look", which may only look, and "other" of another tenant. Each key's text
// is its name.
func (s *system) keys() {
	s.t.Helper()
	every := []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}
	for _, k := range []struct {
		tenant model.TenantID
		row    store.KeyRow
	}{
		{tenant, store.KeyRow{Name: "all", Roles: every, ActsFor: true}},
		{tenant, store.KeyRow{Name: "look", Roles: []model.Role{model.RoleViewer}}},
		{"other", store.KeyRow{Name: "other", Roles: every}},
	} {
		if err := s.store.EnsureTenant(s.t.Context(), k.tenant); err != nil {
			s.t.Fatal(err)
		}
		if _, err := s.store.PutKey(s.t.Context(), k.tenant, k.row, k.row.Name, "test", "test"); err != nil {
			s.t.Fatal(err)
		}
	}
}

// ask registers a turn with text and a call, and gives the call's approval.
func (s *system) ask(topic, text, input string) *model.Approval {
	s.t.Helper()
	quoted, err := strictjson.Marshal(text)
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := s.cases.Register(s.t.Context(), approval.Origin{By: model.Principal{Tenant: tenant, Key: "all", Subject: "key:all"}, Channel: "api"},
		model.TopicID(topic), approval.TurnRequest{
			RequestedBy: "user:alice", Executor: "caller", WhileOpen: "parallel",
			Parts: []strictjson.Raw{
				strictjson.Raw(`{"type":"text","text":` + string(quoted) + `}`),
				strictjson.Raw(`{"type":"tool-delete_file","toolCallId":"c1","state":"input-available","input":` + input + `}`),
			},
		})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.Turn.Calls[0].Approval
}

func (s *system) card(id model.ApprovalID) store.Card {
	s.t.Helper()
	card, err := s.store.Card(s.t.Context(), tenant, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return card
}

// browser keeps cookies, as a browser does.
type browser struct {
	*system
	client *http.Client
}

func (s *system) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s, &http.Client{Jar: jar}}
}

// signedIn is a browser that is signed in with a key, for a person.
func (s *system) signedIn(key, person string) *browser {
	s.t.Helper()
	b := s.browser()
	if status, _ := b.post("/login", url.Values{"key": {key}, "person": {person}}); status != http.StatusOK {
		s.t.Fatalf("signing in with %s: %d", key, status)
	}
	return b
}

func (b *browser) do(r *http.Request, err error) (int, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.client.Do(r.WithContext(b.t.Context()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (b *browser) get(path string) (int, string) {
	b.t.Helper()
	return b.do(http.NewRequest(http.MethodGet, b.url+path, nil))
}

func (b *browser) post(path string, form url.Values, header ...string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequest(http.MethodPost, b.url+path, strings.NewReader(form.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return b.do(r, err)
}

// answer posts a card's form as it was drawn.
func (b *browser) answer(topic string, card store.Card, verdict, reason string) (int, string) {
	b.t.Helper()
	return b.post("/decide", b.form(topic, card, verdict, reason))
}

func (b *browser) form(topic string, card store.Card, verdict, reason string) url.Values {
	return url.Values{"topic": {topic}, "approval": {string(card.Call.Approval.ID)}, "digest": {newCard(card, model.Principal{}).Digest},
		"verdict": {verdict}, "reason": {reason}}
}
