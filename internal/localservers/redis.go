package localservers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// oldestRedis is the first version with the functions the projection uses.
	oldestRedis = 7
	// redisReady bounds a start; an empty Redis needs milliseconds.
	redisReady = 30 * time.Second
)

// RedisOptions say where and how to run a Redis. Only Dir is required.
type RedisOptions struct {
	// Dir is the server's working folder; it is made if missing. Nothing is
	// kept in it: what Redis holds can be made again from Postgres.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// Log receives the server's log; nil drops it.
	Log io.Writer
}

// Redis is a server on this machine, running from [StartRedis] until
// [Redis.Close] or [Redis.Kill]. Its methods are not for concurrent use.
type Redis struct {
	options RedisOptions
	program string
	child   *child
}

// StartRedis starts an empty server and returns when it answers. ctx bounds
// the start alone. Errors: [ErrNotInstalled]; a taken port names its holder.
func StartRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	r := &Redis{options: options}
	if err := r.Start(ctx); err != nil {
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	return r, nil
}

// Start runs the server again after Close or Kill, empty, on the same port.
func (r *Redis) Start(ctx context.Context) error {
	if r.child != nil {
		return errors.New("it is running")
	}
	ctx, cancel := context.WithTimeout(ctx, redisReady)
	defer cancel()
	var err error
	if r.options.Dir, err = makeFolder(r.options.Dir); err != nil {
		return err
	}
	if r.program, err = findRedis(ctx); err != nil {
		return err
	}
	r.options.Port, err = onPort(r.options.Port, func(port int) error { return r.run(ctx, port) })
	return err
}

var redisVersion = regexp.MustCompile(`v=(\d+)`)

func findRedis(ctx context.Context) (string, error) {
	const install = "install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis; " +
		"Fedora: dnf install redis), or name a running server in COUNTERSIGN_REDIS_URL"
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", fmt.Errorf("%w: Redis %d or newer (redis-server was looked for on PATH): %s", ErrNotInstalled, oldestRedis, install)
	}
	output, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	if found := redisVersion.FindSubmatch(output); found != nil {
		if version, err := strconv.Atoi(string(found[1])); err == nil && version >= oldestRedis {
			return program, nil
		}
	}
	return "", fmt.Errorf("%w: Redis %d or newer (%s is %s): %s",
		ErrNotInstalled, oldestRedis, program, strings.TrimSpace(string(output)), install)
}

func (r *Redis) run(ctx context.Context, port int) error {
	output := newTail(r.options.Log)
	cmd := exec.Command(r.program, "--port", strconv.Itoa(port), "--bind", loopback, "--dir", r.options.Dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no")
	cmd.Dir = r.options.Dir
	var err error
	if r.child, err = startChild(cmd, syscall.SIGTERM, output); err != nil {
		return err
	}
	if err = r.ready(ctx, port); err == nil {
		return nil
	}
	err = errors.Join(err, r.child.kill())
	r.child = nil
	if output.contains("Address already in use") {
		return portTaken(port)
	}
	return fmt.Errorf("%w\n%s", err, output)
}

func (r *Redis) ready(ctx context.Context, port int) error {
	ctx, cancel := r.child.whileAlive(ctx)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		pid, err := redisPID(ctx, port)
		if err == nil && pid == r.child.pid() {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// redisPID asks the Redis on a port for its process id: another server may
// have taken the port, and then the child is about to end.
func redisPID(ctx context.Context, port int) (int, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, "INFO server\r\n"); err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "process_id:"); found {
			return strconv.Atoi(strings.TrimSpace(text))
		}
	}
	return 0, errors.New("no Redis answers on the port")
}

// URL is the server's address.
func (r *Redis) URL() string { return "redis://" + address(r.options.Port) + "/0" }

// Gone is closed when the running server has ended, whoever ended it.
func (r *Redis) Gone() <-chan struct{} { return goneOf(r.child) }

// Close stops the server. It says so if the server had died before.
func (r *Redis) Close() error {
	if r.child == nil {
		return nil
	}
	child := r.child
	r.child = nil
	return child.stop(step{syscall.SIGTERM, 10 * time.Second})
}

// Kill ends the server without giving it a chance.
func (r *Redis) Kill() error {
	if r.child == nil {
		return nil
	}
	child := r.child
	r.child = nil
	return child.kill()
}
