package localservers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncerOptions say where a PgBouncer runs, and before which Postgres. All
// are required.
type PgBouncerOptions struct {
	Dir     string // of its configuration, made if missing
	Server  string // the URL of the Postgres, with its user and database
	Mode    string // pool_mode: session or transaction
	Ignores string // ignore_startup_parameters
}

// PgBouncer is a connection pooler on this machine, for tests.
type PgBouncer struct {
	options PgBouncerOptions
	port    int
	child   *child
}

// pgBouncerReady bounds a start; it needs milliseconds.
const pgBouncerReady = 30 * time.Second

// transactional is the first version that knows prepared statements in
// transaction mode.
var transactional = [2]int{1, 21}

// StartPgBouncer starts a pooler and returns when it answers. Errors:
// [ErrNotInstalled].
func StartPgBouncer(ctx context.Context, options PgBouncerOptions) (*PgBouncer, error) {
	b := &PgBouncer{options: options}
	if err := b.Start(ctx); err != nil {
		return nil, fmt.Errorf("start PgBouncer: %w", err)
	}
	return b, nil
}

// Start runs the pooler again after Kill, on the same port.
func (b *PgBouncer) Start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, pgBouncerReady)
	defer cancel()
	program, err := findPgBouncer()
	if err != nil {
		return err
	}
	b.port, err = onPort(b.port, func(port int) error { return b.run(ctx, program, port) })
	return err
}

// findPgBouncer looks where Debian has it, too, which is on root's PATH alone.
func findPgBouncer() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("%w: PgBouncer: install it (Debian, Ubuntu: apt-get install pgbouncer; macOS: brew install pgbouncer)", ErrNotInstalled)
}

// PgBouncerPrepares tells whether the pooler that is installed knows prepared
// statements in transaction mode.
func PgBouncerPrepares(ctx context.Context) (bool, error) {
	program, err := findPgBouncer()
	if err != nil {
		return false, err
	}
	output, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return false, fmt.Errorf("%s --version: %w", program, err)
	}
	found := regexp.MustCompile(`PgBouncer (\d+)\.(\d+)`).FindSubmatch(output)
	if found == nil {
		return false, fmt.Errorf("%s has no version: %s", program, output)
	}
	major, _ := strconv.Atoi(string(found[1]))
	minor, _ := strconv.Atoi(string(found[2]))
	return major > transactional[0] || major == transactional[0] && minor >= transactional[1], nil
}

func (b *PgBouncer) run(ctx context.Context, program string, port int) error {
	server, err := pgx.ParseConfig(b.options.Server)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%d user=%s\n\n[pgbouncer]\n", server.Host, server.Port, server.User)
	fmt.Fprintf(&text, "listen_addr = %s\nlisten_port = %d\nunix_socket_dir =\nauth_type = any\n", loopback, port)
	fmt.Fprintf(&text, "pool_mode = %s\ndefault_pool_size = 40\nignore_startup_parameters = %s\n", b.options.Mode, b.options.Ignores)
	if b.options.Mode == "transaction" {
		fmt.Fprintln(&text, "max_prepared_statements = 200")
	}
	if err := os.MkdirAll(b.options.Dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(b.options.Dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
		return err
	}
	return b.start(ctx, program, file, port)
}

// start starts it as an unprivileged user: like Postgres, it refuses root.
func (b *PgBouncer) start(ctx context.Context, program, file string, port int) error {
	runs, err := accountFor("")
	if err != nil {
		return err
	}
	output, cmd := newTail(nil), exec.Command(program, file)
	cmd.Dir, cmd.SysProcAttr = b.options.Dir, runs.attr()
	if b.child, err = startChild(cmd, syscall.SIGKILL, output); err != nil {
		return err
	}
	if err = b.ready(ctx, port); err == nil {
		return nil
	}
	err = errors.Join(err, b.Kill())
	if output.contains("Address already in use") {
		return portTaken(port)
	}
	return fmt.Errorf("%w\n%s", err, output)
}

func (b *PgBouncer) ready(ctx context.Context, port int) error {
	ctx, cancel := b.child.whileAlive(ctx)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, b.url(port))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// URL is the database's address behind the pooler.
func (b *PgBouncer) URL() string { return b.url(b.port) }

func (b *PgBouncer) url(port int) string {
	through, err := url.Parse(b.options.Server)
	if err != nil {
		return ""
	}
	through.Host = address(port)
	return through.String()
}

// Kill ends the pooler without giving it a chance.
func (b *PgBouncer) Kill() error {
	if b.child == nil {
		return nil
	}
	child := b.child
	b.child = nil
	return child.kill()
}
