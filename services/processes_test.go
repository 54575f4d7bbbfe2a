package services

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// deployment is a whole Countersign: real Postgres, NATS and Redis, and two
// of each service as processes of their own.
type deployment struct {
	t        *testing.T
	dir      string
	database string
	nats     *localservers.NATS
	redis    *localservers.Redis
	db       *store.Store // for what only the rows can show
	sql      *sql.DB      // for what not even the store shows; see rows
	key      string

	api        [2]*service
	workers    [2]*service
	continuers [2]*service
}

// built are the three programs and the example of a tool server, built once
// for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := testservers.Shared("services")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/", "./api", "./worker", "./continuer", "../examples/workspace").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return dir, nil
})

// deploy runs two of each service.
func deploy(t *testing.T) *deployment {
	t.Helper()
	d := servers(t)
	for i := range 2 {
		d.startAPI(i)
		d.startWorker(i)
		d.startContinuer(i)
	}
	d.ready()
	return d
}

// servers is a deployment without a service yet, for tests that want only
// some or tell them something else.
func servers(t *testing.T) *deployment {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{t: t, dir: dir, key: store.NewKey(), database: testservers.Database(t, store.Migrate),
		nats: testservers.NATS(t), redis: testservers.PrivateRedis(t)}
	if d.db, err = store.New(d.database, store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.db.Close)
	if err := d.db.EnsureTenant(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	everything := store.KeyRow{Name: "all", ActsFor: true,
		Roles: []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}}
	if _, err := d.db.PutKey(t.Context(), "default", everything, d.key, "test", "test"); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *deployment) startAPI(i int, env ...string) {
	d.t.Helper()
	d.api[i] = d.service("api", "COUNTERSIGN_LISTEN", env...)
}

func (d *deployment) startWorker(i int, env ...string) {
	d.t.Helper()
	env = append([]string{"COUNTERSIGN_WORKER_LEASE=3s", "COUNTERSIGN_WORKER_POLL=500ms"}, env...)
	d.workers[i] = d.service("worker", "COUNTERSIGN_WORKER_LISTEN", env...)
}

func (d *deployment) startContinuer(i int, env ...string) {
	d.t.Helper()
	env = append([]string{"COUNTERSIGN_SWEEP_INTERVAL=500ms"}, env...)
	d.continuers[i] = d.service("continuer", "COUNTERSIGN_CONTINUER_LISTEN", env...)
}

// node gives a client of one api node.
func (d *deployment) node(i int) *client.Client { return client.New(d.api[i].url, d.key) }

// as gives a client of one api node that acts for a person.
func (d *deployment) as(i int, person string) *client.Client {
	return client.New(d.api[i].url, d.key, client.WithActor(person))
}

// service is one process.
type service struct {
	t       *testing.T
	name    string
	program string
	env     []string
	url     string
	cmd     *exec.Cmd
	log     *lockedBuffer
}

func (d *deployment) service(name, listen string, env ...string) *service {
	d.t.Helper()
	addr := freeAddress(d.t)
	s := &service{t: d.t, name: name, program: filepath.Join(d.dir, name), url: "http://" + addr, log: &lockedBuffer{}}
	s.env = append(append(os.Environ(), env...), listen+"="+addr, "COUNTERSIGN_DATABASE_URL="+d.database,
		"COUNTERSIGN_NATS_URL="+d.nats.URL(), "COUNTERSIGN_REDIS_URL="+d.redis.URL(), "COUNTERSIGN_ALLOW_TARGETS=127.0.0.0/8",
		"COUNTERSIGN_LOG_FORMAT=json")
	s.start()
	d.t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if d.t.Failed() {
			d.t.Logf("%s said:\n%s", s.name, s.log.tail(40))
		}
	})
	return s
}

func (s *service) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program)
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// stop sends a signal and waits for the end.
func (s *service) stop(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	_ = s.cmd.Process.Signal(signal)
	return s.wait()
}

// signal sends a signal and does not wait.
func (s *service) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for the end of a process that was told to end.
func (s *service) wait() error {
	err := s.cmd.Wait()
	s.cmd = nil
	return err
}

// ready waits for every service that was started.
func (d *deployment) ready() {
	d.t.Helper()
	for i := range 2 {
		for _, s := range []*service{d.api[i], d.workers[i], d.continuers[i]} {
			if s != nil {
				s.ready()
			}
		}
	}
}

func (s *service) ready() {
	s.t.Helper()
	eventually(s.t, s.name+" is ready", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	})
}

// deadline bounds every wait: far beyond what anything here takes, so that a
// wait that reaches it has found a fault.
const deadline = 60 * time.Second

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	within(t, deadline, what, ask)
}

// within is eventually, for what takes longer.
func within(t *testing.T, deadline time.Duration, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := poll(ctx, ask); err != nil {
		t.Fatalf("%s: not within %s: %v", what, deadline, err)
	}
}

// poll asks until there is no error, or ctx ends; then it gives the last one.
func poll(ctx context.Context, ask func(ctx context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// lockedBuffer is a process's output.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail(lines int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := bytes.Split(b.buf.Bytes(), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

const killed = syscall.SIGKILL

// ignoreKilled: a process that was killed says so when it is waited for.
func ignoreKilled(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == killed {
		return nil
	}
	return err
}
