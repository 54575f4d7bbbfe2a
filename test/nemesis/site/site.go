package site

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// Site is one running system. Its methods are safe for concurrent use unless
// they say otherwise.
type Site struct {
	Dir    string
	Store  *store.Store // of this process, past every proxy: what looks at the rows
	Ledger string       // the tool server's file
	Tool   ledger.Admin // what the tool server is told

	// ToolURL and BackendURL are where tools and webhooks are, by way of
	// their links.
	ToolURL string

	nodes map[string]*Node
	links map[string]*Link

	postgresMu sync.Mutex
	postgres   *localservers.Postgres
	redisMu    sync.Mutex
	redis      *localservers.Redis
	natsDir    string
	model      *httptest.Server
}

// Options are what a site is started with.
type Options struct {
	Dir      string       // an empty folder that every user may enter
	Programs string       // where [Build] put the programs
	Model    http.Handler // the provider that the workers' model loop asks
}

// Build makes the services with build tags, and the programs around them.
func Build(ctx context.Context, dir string, tags ...string) error {
	return cluster.Build(ctx, dir, tags, "./test/nemesis/toolserver", "./test/nemesis/natsserver")
}

// Start starts everything and waits until it is ready. What was started is
// closed by Close, with an error, too.
func Start(ctx context.Context, o Options) (s *Site, err error) {
	s = &Site{Dir: o.Dir, nodes: map[string]*Node{}, links: map[string]*Link{}, Ledger: filepath.Join(o.Dir, "ledger.jsonl")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.startServers(ctx, o.Programs); err != nil {
		return s, err
	}
	s.model = httptest.NewServer(o.Model)
	if err := s.migrate(ctx); err != nil {
		return s, err
	}
	for _, name := range schedule.Services {
		if err := s.startService(o.Programs, name); err != nil {
			return s, err
		}
	}
	return s, s.Ready(ctx)
}

func (s *Site) startServers(ctx context.Context, programs string) (err error) {
	s.postgres, err = localservers.StartPostgres(ctx, localservers.PostgresOptions{
		Dir: filepath.Join(s.Dir, "postgres"), Settings: map[string]string{"max_connections": "200", "shared_buffers": "64MB"},
	})
	if err != nil {
		return err
	}
	if s.redis, err = localservers.StartRedis(ctx, localservers.RedisOptions{Dir: filepath.Join(s.Dir, "redis")}); err != nil {
		return err
	}
	s.natsDir = filepath.Join(s.Dir, "nats")
	if err := s.startNode(programs, "natsserver", "nats", "NATSSERVER_DIR="+s.natsDir); err != nil {
		return err
	}
	if err := s.startNode(programs, "toolserver", "tool", "TOOLSERVER_LEDGER="+s.Ledger); err != nil {
		return err
	}
	s.nodes["tool"].mayEnd = true
	s.Tool = ledger.Admin(s.nodes["tool"].URL())
	s.ToolURL, err = s.linkURL("workers>tool", s.nodes["tool"].URL())
	return err
}

func (s *Site) startNode(programs, program, name string, env ...string) error {
	node, err := newNode(programs, program, name, append(small, env...)...)
	if err != nil {
		return err
	}
	s.nodes[name] = node
	return node.Start()
}

// small keeps a process to one core: there are a dozen of them.
var small = []string{"GOMAXPROCS=1", "COUNTERSIGN_GRACE=10s", "COUNTERSIGN_LOG_FORMAT=json", "COUNTERSIGN_LOG_LEVEL=warn"}

// settings are those of each service: short times, so that what takes time
// comes to pass within a run.
var settings = map[string][]string{
	"api": {"COUNTERSIGN_API_SWEEP_INTERVAL=1s"},
	"worker": {"COUNTERSIGN_WORKER_LEASE=" + schedule.Lease.String(), "COUNTERSIGN_WORKER_POLL=700ms", "COUNTERSIGN_WORKER_SLOTS=16",
		"COUNTERSIGN_MODEL_NAME=nemesis", "COUNTERSIGN_MODEL_POLL=700ms", "COUNTERSIGN_MODEL_SLOTS=8",
		"COUNTERSIGN_ALLOW_TARGETS=127.0.0.0/8"},
	"continuer": {"COUNTERSIGN_SWEEP_INTERVAL=700ms", "COUNTERSIGN_ALLOW_TARGETS=127.0.0.0/8"},
}

// servers are the settings that name a server, and the server's place in a
// link's name.
var servers = []struct{ setting, name string }{
	{"COUNTERSIGN_DATABASE_URL", "postgres"}, {"COUNTERSIGN_NATS_URL", "nats"}, {"COUNTERSIGN_REDIS_URL", "redis"},
}

func (s *Site) migrate(ctx context.Context) (err error) {
	if err := store.Migrate(ctx, s.postgres.URL()); err != nil {
		return err
	}
	s.Store, err = store.New(s.postgres.URL(), store.Options{Log: slog.New(slog.DiscardHandler), MaxConns: 4})
	return err
}

func (s *Site) startService(programs, name string) error {
	service, _, _ := strings.Cut(name, "-")
	env := slices.Clone(settings[service])
	if service == "worker" {
		env = append(env, "COUNTERSIGN_MODEL_BASE_URL="+s.model.URL)
	}
	urls := map[string]string{"postgres": s.postgres.URL(), "nats": s.NATSURL(), "redis": s.redis.URL()}
	for _, server := range servers {
		if server.name == "redis" && service != "api" {
			continue
		}
		url, err := s.linkURL(name+">"+server.name, urls[server.name])
		if err != nil {
			return err
		}
		env = append(env, server.setting+"="+url)
	}
	if err := s.startNode(programs, service, name, env...); err != nil || service != "api" {
		return err
	}
	_, err := s.link("users>"+name, s.nodes[name].Address())
	return err
}

// Ready waits until every service can do its work, or ctx ends.
func (s *Site) Ready(ctx context.Context) error {
	for _, name := range schedule.Services {
		if err := s.nodes[name].Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Node gives a process by its name.
func (s *Site) Node(name string) *Node { return s.nodes[name] }

// API is the URL of an api node, by way of the users' link.
func (s *Site) API(i int) string { return "http://" + s.links[fmt.Sprintf("users>api-%d", i)].Addr() }

// NATSURL is the server itself.
func (s *Site) NATSURL() string { return "nats://" + s.nodes["nats"].Address() }

// DatabaseURL is the server itself.
func (s *Site) DatabaseURL() string { return s.postgres.URL() }

// RedisAddress is host and port of the server itself.
func (s *Site) RedisAddress() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.redis.URL(), "redis://"), "/0")
}

// Backend puts the link of webhooks in front of an address.
func (s *Site) Backend(address string) (url string, err error) {
	address, err = s.link("continuers>backend", address)
	return "http://" + address, err
}

// Surprises starts again what has ended by itself, and tells which of it was
// not to be expected.
func (s *Site) Surprises() error {
	var errs []error
	for _, node := range s.nodes {
		errs = append(errs, node.Surprise())
	}
	return errors.Join(errs...)
}

// Heal ends every fault: the network passes everything, everything runs and
// is ready.
func (s *Site) Heal(ctx context.Context) error {
	errs := []error{s.healLinks(), s.RestartPostgres(ctx, nil), s.RestartRedis(ctx, nil)}
	for _, node := range s.nodes {
		errs = append(errs, node.Resume())
	}
	errs = append(errs, cluster.Poll(ctx, func(ctx context.Context) error { return s.Tool.Set(ctx, ledger.Schedule{}) }))
	errs = append(errs, s.Tool.Release(ctx), s.Ready(ctx))
	return errors.Join(errs...)
}

// Close ends everything, and keeps what the processes said.
func (s *Site) Close() error {
	var errs []error
	if s.Store != nil {
		s.Store.Close()
	}
	logs := filepath.Join(s.Dir, "logs")
	errs = append(errs, os.MkdirAll(logs, 0o755))
	for _, node := range s.nodes {
		_ = node.Stop(syscall.SIGKILL)
		errs = append(errs, node.keepLog(logs))
	}
	if s.model != nil {
		s.model.CloseClientConnections()
		s.model.Close()
	}
	errs = append(errs, s.closeLinks())
	if s.redis != nil {
		errs = append(errs, s.redis.Kill())
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Kill())
	}
	return errors.Join(errs...)
}
