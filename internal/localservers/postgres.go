package localservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/owner"
)

const (
	postgresUser     = "countersign"
	postgresDatabase = "countersign"
	// postgresReady bounds a start, crash recovery included: a development
	// database replays its log in seconds.
	postgresReady = 2 * time.Minute
)

// postgresStop: SIGINT ends sessions and writes a checkpoint, SIGQUIT leaves
// the rest to crash recovery.
var postgresStop = []step{{syscall.SIGINT, 30 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}}

// PostgresOptions say where and how to run a Postgres. Only Dir is required.
type PostgresOptions struct {
	// Dir holds the data, the lock and nothing else; it is made if missing.
	// When this process is root, every parent must be open (o+x) to user
	// postgres.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// Settings are passed as "-c name=value". Without any, Postgres's own
	// defaults hold: fsync is on.
	Settings map[string]string
	// Env is added to the server's environment, KEY=VALUE.
	Env []string
	// Log receives the server's log; nil drops it.
	Log io.Writer
}

// Postgres is a server on this machine, running from [StartPostgres] until
// [Postgres.Close] or [Postgres.Kill]. Its methods are not for concurrent use.
type Postgres struct {
	options   PostgresOptions
	primary   *Postgres // of which this was made as a standby, or nil
	data      string
	installed installation
	account   *account
	folder    *owner.Folder
	child     *child
}

// StartPostgres starts a server on the folder, making its data first if there
// is none, and returns when it answers and its database "countersign" exists.
// ctx bounds the start alone.
//
// Errors: [ErrNotInstalled]; owner.ErrTaken when a living process runs a
// server on this folder; a taken port names its holder.
func StartPostgres(ctx context.Context, options PostgresOptions) (*Postgres, error) {
	p := &Postgres{options: options}
	if err := p.Start(ctx); err != nil {
		return nil, fmt.Errorf("start Postgres in %s: %w", options.Dir, err)
	}
	return p, nil
}

// Start runs the server again after Close or Kill, on the same folder and
// port.
func (p *Postgres) Start(ctx context.Context) (err error) {
	if p.child != nil {
		return errors.New("it is running")
	}
	ctx, cancel := context.WithTimeout(ctx, postgresReady)
	defer cancel()
	if err := p.prepare(ctx); err != nil {
		return errors.Join(err, p.release())
	}
	p.options.Port, err = onPort(p.options.Port, func(port int) error { return p.run(ctx, port) })
	if err != nil {
		return errors.Join(err, p.release())
	}
	return nil
}

// prepare brings the folder to where a server can run on it.
func (p *Postgres) prepare(ctx context.Context) error {
	dir, err := makeFolder(p.options.Dir)
	if err != nil {
		return err
	}
	p.data = filepath.Join(dir, "data")
	if p.account, err = accountFor(p.data); err != nil {
		return err
	}
	if err := p.account.checkReach(dir); err != nil {
		return err
	}
	if p.installed, err = findPostgres(p.data); err != nil {
		return err
	}
	if p.folder, err = owner.Hold(dir); err != nil {
		return err
	}
	if err := p.initialize(ctx); err != nil {
		return err
	}
	return p.stopOrphan(ctx)
}

// makeFolder returns the folder's one true path, by which a process working
// in it can be recognized.
func makeFolder(dir string) (string, error) {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o755 // the unprivileged user must come through
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// run starts the server on a port and waits until it answers. Backends of a
// killed predecessor need a moment to notice; until then Postgres refuses.
func (p *Postgres) run(ctx context.Context, port int) error {
	for {
		output := newTail(p.options.Log)
		var err error
		if p.child, err = startChild(p.command(port), syscall.SIGINT, output); err != nil {
			return err
		}
		if err = p.ready(ctx, port); err == nil {
			return nil
		}
		err = errors.Join(err, p.child.kill())
		p.child = nil
		switch {
		case output.contains("Address already in use"):
			return portTaken(port)
		case ctx.Err() != nil || !output.contains("still in use"):
			return fmt.Errorf("%w\n%s", err, output)
		}
		waitUntil(ctx, 100*time.Millisecond, func() bool { return false })
	}
}

func (p *Postgres) command(port int) *exec.Cmd {
	args := []string{
		"-D", p.data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=" + loopback,
		"-c", "unix_socket_directories=",
	}
	for _, name := range slices.Sorted(maps.Keys(p.options.Settings)) {
		args = append(args, "-c", name+"="+p.options.Settings[name])
	}
	cmd := exec.Command(filepath.Join(p.installed.bin, "postgres"), args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = p.data, append(postgresEnv(), p.options.Env...), p.account.attr()
	return cmd
}

// URL is the address of the server's database "countersign".
func (p *Postgres) URL() string { return p.DatabaseURL(postgresDatabase) }

// DatabaseURL is the address of another database of this server.
func (p *Postgres) DatabaseURL(name string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", postgresUser, address(p.options.Port), name)
}

// Dir is the folder the server was given, as its one true path.
func (p *Postgres) Dir() string { return filepath.Dir(p.data) }

// Gone is closed when the running server has ended, whoever ended it.
func (p *Postgres) Gone() <-chan struct{} { return goneOf(p.child) }

// Close stops the server cleanly: sessions are ended, everything is on disk
// when it returns. It says so if the server had died before.
func (p *Postgres) Close() error {
	if p.child == nil {
		return nil
	}
	err := p.child.stop(postgresStop...)
	p.child = nil
	return errors.Join(err, p.release())
}

// Kill ends the whole server as a power cut would, and waits until every one
// of its processes is gone.
func (p *Postgres) Kill() error {
	if p.child == nil {
		return nil
	}
	err := p.child.kill()
	p.child = nil
	return errors.Join(err, p.release())
}

// End ends the server's first process by a signal and waits until all of it
// is gone: SIGQUIT is Postgres's immediate shutdown, and after SIGKILL the
// others notice by themselves that it is gone.
func (p *Postgres) End(signal syscall.Signal) error {
	if p.child == nil {
		return os.ErrProcessDone
	}
	if err := p.child.cmd.Process.Signal(signal); err != nil {
		return err
	}
	<-p.child.gone
	p.child = nil
	return p.release()
}

func (p *Postgres) release() error {
	if p.folder == nil {
		return nil
	}
	folder := p.folder
	p.folder = nil
	return folder.Release()
}
