package testcluster

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Deployment is a whole Countersign with two places for each service.
type Deployment struct {
	T        *testing.T
	Programs string // the folder of the built services and of examples/workspace
	Database string // where its rows are; the services go through [Deployment.Env]
	NATS     *localservers.NATS
	Redis    *localservers.Redis
	Store    *store.Store // for what only the rows can show
	Key      string       // an API key of tenant default with every role

	// Env is what every service is told, before what one of them is told.
	Env []string

	API        [2]*Service
	Workers    [2]*Service
	Continuers [2]*Service

	sql *sql.DB
}

// withoutNATS names the variable that has every deployment begin with its NATS
// switched off: all but what is about NATS itself passes then, only slower.
const withoutNATS = "COUNTERSIGN_TEST_WITHOUT_NATS"

// programs are built once for all tests of a binary, by their build tags.
var programs sync.Map

// Built is the folder of the services, built with build tags, and of the
// example of a tool server and the tool of test/nemesis.
func Built(t *testing.T, tags ...string) string {
	t.Helper()
	build, _ := programs.LoadOrStore(strings.Join(tags, ","), sync.OnceValues(func() (string, error) {
		dir, err := testservers.Shared("services-" + strings.Join(tags, "-"))
		if err != nil {
			return "", err
		}
		return dir, cluster.Build(context.WithoutCancel(t.Context()), dir, tags, "./examples/workspace", "./test/nemesis/toolserver")
	}))
	dir, err := build.(func() (string, error))()
	must(t, err)
	return dir
}

// Deploy runs two of each service.
func Deploy(t *testing.T) *Deployment {
	t.Helper()
	d := Servers(t)
	for i := range 2 {
		d.StartAPI(i)
		d.StartWorker(i)
		d.StartContinuer(i)
	}
	d.Ready()
	return d
}

// Servers is a deployment without a service yet, for tests that want only some
// or tell them something else. tags are what the services are built with.
func Servers(t *testing.T, tags ...string) *Deployment {
	t.Helper()
	return On(t, testservers.Database(t, store.Migrate), tags...)
}

// On is [Servers] with a migrated database of the test's own.
func On(t *testing.T, database string, tags ...string) *Deployment {
	t.Helper()
	d := &Deployment{T: t, Programs: Built(t, tags...), Key: store.NewKey(), Database: database,
		NATS: testservers.NATS(t), Redis: testservers.PrivateRedis(t)}
	d.Env = []string{"COUNTERSIGN_DATABASE_URL=" + d.Database, "COUNTERSIGN_NATS_URL=" + d.NATS.URL(),
		"COUNTERSIGN_REDIS_URL=" + d.Redis.URL(), "COUNTERSIGN_ALLOW_TARGETS=127.0.0.0/8", "COUNTERSIGN_LOG_FORMAT=json"}
	if os.Getenv(withoutNATS) != "" {
		must(t, d.NATS.Close())
	}
	var err error
	d.Store, err = store.New(d.Database, store.Options{})
	must(t, err)
	t.Cleanup(d.Store.Close)
	d.sql, err = sql.Open("pgx", d.Database)
	must(t, err)
	t.Cleanup(func() { _ = d.sql.Close() })
	must(t, d.Store.EnsureTenant(t.Context(), "default"))
	everything := store.KeyRow{Name: "all", ActsFor: true,
		Roles: []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}}
	_, err = d.Store.PutKey(t.Context(), "default", everything, d.Key, "test", "test")
	must(t, err)
	return d
}

// In is the same deployment for a subtest.
func (d *Deployment) In(t *testing.T) *Deployment {
	own := *d
	own.T = t
	return &own
}

// StartAPI starts an api node; env is KEY=VALUE.
func (d *Deployment) StartAPI(i int, env ...string) {
	d.T.Helper()
	d.API[i] = d.service("api", env...)
}

// StartWorker starts a worker with a short lease and a quick look for queued
// rows.
func (d *Deployment) StartWorker(i int, env ...string) {
	d.T.Helper()
	d.Workers[i] = d.service("worker", append([]string{"COUNTERSIGN_WORKER_LEASE=3s", "COUNTERSIGN_WORKER_POLL=500ms"}, env...)...)
}

// StartContinuer starts a continuer that sweeps often.
func (d *Deployment) StartContinuer(i int, env ...string) {
	d.T.Helper()
	d.Continuers[i] = d.service("continuer", append([]string{"COUNTERSIGN_SWEEP_INTERVAL=500ms"}, env...)...)
}

// Ready waits for every service that was started.
func (d *Deployment) Ready() {
	d.T.Helper()
	for i := range 2 {
		for _, s := range []*Service{d.API[i], d.Workers[i], d.Continuers[i]} {
			if s != nil {
				s.Ready()
			}
		}
	}
}

// Node gives a client of one api node.
func (d *Deployment) Node(i int) *client.Client { return client.New(d.API[i].URL, d.Key) }

// As gives a client of one api node that acts for a person.
func (d *Deployment) As(i int, person string) *client.Client {
	return client.New(d.API[i].URL, d.Key, client.WithActor(person))
}

func (d *Deployment) service(name string, env ...string) *Service {
	d.T.Helper()
	p, err := cluster.New(d.Programs, name, append(append([]string{}, d.Env...), env...)...)
	must(d.T, err)
	s := &Service{Process: p, t: d.T}
	s.Start()
	d.T.Cleanup(func() {
		_ = s.Stop(syscall.SIGKILL)
		if d.T.Failed() {
			d.T.Logf("%s said:\n%s", s.Name, s.Log.Tail(40))
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
