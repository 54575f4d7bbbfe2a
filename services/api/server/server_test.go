package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// patience is a deadline, not a duration.
const patience = 30 * time.Second

// start runs an api node on an address of its own until the test ends.
func start(t *testing.T, database, nats, redis string) (url string) {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Listen: address, DefaultExpiry: time.Hour, MaxBody: 1 << 20}
	cfg.DatabaseURL, cfg.NATSURL, cfg.RedisURL, cfg.Grace = daemon.URL(database), daemon.URL(nats), daemon.URL(redis), patience
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("it did not stop in order: %v", err)
		}
	})
	url = "http://" + address
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get(url + "/healthz"); err == nil {
			response.Body.Close()
			return url
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not answer")
		}
	}
}

// key makes a tenant with a key of every role.
func key(t *testing.T, database string) string {
	t.Helper()
	s, err := store.New(database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.EnsureTenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	secret := store.NewKey()
	k := store.KeyRow{Name: "root", Roles: []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin}}
	if _, err := s.PutKey(t.Context(), "acme", k, secret, "test", "test"); err != nil {
		t.Fatal(err)
	}
	return secret
}

func ask(t *testing.T, key, method, url, body string) (int, http.Header, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	_ = json.Unmarshal(raw, &doc)
	return response.StatusCode, response.Header, doc
}

// nowhere is an address at which nobody answers.
const nowhere = "127.0.0.1:1"

// NATS and Redis are hints and projections: without both a decision commits,
// and who waits for it gets it, later but not wrong.
func TestItWorksWithNATSAndRedisAway(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t, store.Migrate)
	secret := key(t, database)
	url := start(t, database, "nats://"+nowhere, "redis://"+nowhere)
	if status, _, doc := ask(t, secret, "GET", url+"/readyz", ""); status != 200 {
		t.Fatalf("not ready: %v", doc)
	}
	status, _, turn := ask(t, secret, "POST", url+"/v1/topics/t/turns", `{"messageId":"m","executor":"caller","parts":[
		{"type":"tool-x","toolCallId":"c","state":"input-available","input":{}}]}`)
	if status != 201 {
		t.Fatalf("register: %d %v", status, turn)
	}
	approval := turn["turn"].(map[string]any)["calls"].([]any)[0].(map[string]any)["approvalId"].(string)
	waited := make(chan map[string]any)
	go func() {
		_, _, doc := ask(t, secret, "GET", url+"/v1/approvals/"+approval+"?wait=30s", "")
		waited <- doc
	}()
	if status, _, doc := ask(t, secret, "POST", url+"/v1/approvals/"+approval+"/decision", `{"approved":true}`); status != 200 {
		t.Fatalf("decide: %d %v", status, doc)
	}
	if doc := <-waited; doc["state"] != "approved" {
		t.Errorf("waiting gave %v", doc)
	}
	if status, _, doc := ask(t, secret, "GET", url+"/v1/topics/t", ""); status != 200 || doc["status"] != "pending" {
		t.Errorf("topic: %d %v", status, doc)
	}
}

func TestWithoutPostgresItIsNotReadyAndSaysSo(t *testing.T) {
	t.Parallel()
	url := start(t, "postgres://nobody@"+nowhere+"/none?connect_timeout=1", "nats://"+nowhere, "redis://"+nowhere)
	if status, _, doc := ask(t, "cs_x", "GET", url+"/readyz", ""); status != 503 {
		t.Errorf("ready: %d %v", status, doc)
	}
	status, header, doc := ask(t, "cs_x", "GET", url+"/v1/topics", "")
	if status != 503 || doc["type"] != "/problems/unavailable" || header.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, doc)
	}
}

// A node that is told to stop ends the streams that are open, and does not
// wait for them until it has to cut them.
func TestItStopsWhileStreamsAreOpen(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t, store.Migrate)
	secret := key(t, database)
	var told time.Time
	t.Run("node", func(t *testing.T) {
		url := start(t, database, "nats://"+nowhere, "redis://"+nowhere)
		ask(t, secret, "POST", url+"/v1/topics/t/turns", `{"parts":[{"type":"text","text":"hi"}]}`)
		follow(t, url+"/v1/topics/t/events", "Authorization", "Bearer "+secret)
		follow(t, url+"/events?id=t", "Cookie", "countersign=k="+secret)
		told = time.Now()
	}) // here it has stopped
	if took := time.Since(told); took > 15*time.Second {
		t.Errorf("it stopped after %v", took)
	}
}

// follow opens a stream and leaves it open after the test.
func follow(t *testing.T, url, header, value string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := response.Body.Read(make([]byte, 10)); n == 0 || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, response.StatusCode, err)
	}
}
