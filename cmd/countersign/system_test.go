package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	api "github.com/countersign/countersign/services/api/server"
)

// patience bounds every wait: far beyond what anything here takes.
const patience = time.Minute

// system is an api node on real servers, and the command beside it.
type system struct {
	t        *testing.T
	url, key string
	database string
	backend  *client.Client
}

func startSystem(t *testing.T) *system {
	t.Helper()
	database := testservers.Database(t, nil)
	must(t, store.Migrate(t.Context(), database))
	key := firstKey(t, database)
	listen := freeAddress(t)
	config := api.Config{
		Common: daemon.Common{
			DatabaseURL: daemon.URL(database), NATSURL: daemon.URL(testservers.NATS(t).URL()),
			RedisURL: daemon.URL(testservers.PrivateRedis(t).URL()), Grace: patience,
		},
		Listen: listen, DefaultExpiry: model.DefaultExpiry, MaxBody: 1 << 20, MaxConns: 4,
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- api.Run(ctx, config, slog.New(slog.NewTextHandler(io.Discard, nil))) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the api ended: %v", err)
		}
	})
	s := &system{t, "http://" + listen, key, database, client.New("http://"+listen, key)}
	s.eventually("the api is ready", func() error { return ready(s.url) })
	must(t, second(s.backend.PutTool(t.Context(), "delete_file", client.Tool{
		Description: "Deletes a file.", Effect: "unsafe", Executor: "caller",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}`),
	})))
	return s
}

// rows is a connection of the test's own to the database.
func (s *system) rows() *sql.DB {
	s.t.Helper()
	db, err := sql.Open("pgx", s.database) // the driver is the store's
	must(s.t, err)
	s.t.Cleanup(func() { _ = db.Close() })
	return db
}

func firstKey(t *testing.T, database string) string {
	t.Helper()
	db, err := store.New(database, store.Options{})
	must(t, err)
	defer db.Close()
	must(t, db.EnsureTenant(t.Context(), "default"))
	key := store.NewKey()
	must(t, ensureFirstKey(t.Context(), db, "default", key))
	return key
}

func ready(url string) error {
	response, err := http.Get(url + "/readyz")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// ask registers a turn with one call that waits for a decision, and gives its
// card.
func (s *system) ask(topic, path string) client.Approval {
	s.t.Helper()
	input, err := json.Marshal(map[string]string{"path": path})
	must(s.t, err)
	registered, err := s.backend.RegisterTurn(s.t.Context(), topic, client.TurnRequest{
		RequestedBy: "user:alice", Parts: []client.Part{client.ToolPart("delete_file", "call_1", input)},
	})
	must(s.t, err)
	card, err := s.backend.Approval(s.t.Context(), registered.Turn.Calls[0].ApprovalID)
	must(s.t, err)
	return card
}

// said is what a command printed, and its exit code.
type said struct {
	code     int
	out, err string
}

// command runs one command against the system.
func (s *system) command(args ...string) said {
	s.t.Helper()
	p := quiet()
	code := run(s.t.Context(), slices.Concat(args[:1], []string{"--url", s.url, "--key", s.key}, args[1:]), p)
	return said{code, p.out.(*bytes.Buffer).String(), p.err.(*bytes.Buffer).String()}
}

func (s *system) eventually(what string, ask func() error) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			s.t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	must(t, err)
	return address
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }
