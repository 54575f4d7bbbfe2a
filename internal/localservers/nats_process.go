package localservers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// NATSProcessOptions say where and how to run a nats-server as a process.
// Program and Dir are required.
type NATSProcessOptions struct {
	// Program is the path of a nats-server.
	Program string
	// Dir holds JetStream's files and the server's configuration; it is made
	// if missing.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// MaxStore bounds JetStream's files, in bytes; 0 leaves it to the server.
	MaxStore int64
	// Deny is a subject that nobody may publish to; what is sent there is
	// dropped. Empty: none.
	Deny string
	// Name is unique within a cluster, of which Routes are the servers' own
	// ports for one another, this one's first. Empty: no cluster.
	Name   string
	Routes []int
	// Log receives the server's log; nil drops it.
	Log io.Writer
}

// NATSProcess is a nats-server as a process of its own, which can be paused
// and killed. Its methods are not for concurrent use.
type NATSProcess struct {
	options NATSProcessOptions
	child   *child
}

// StartNATSProcess starts a server and returns when it takes connections; a
// server of a cluster may wait for the others after that. ctx bounds the
// start alone.
func StartNATSProcess(ctx context.Context, options NATSProcessOptions) (*NATSProcess, error) {
	n := &NATSProcess{options: options}
	if err := n.Start(ctx); err != nil {
		return nil, fmt.Errorf("start nats-server: %w", err)
	}
	return n, nil
}

// Start runs the server again after Close or Kill, on the same folder and
// port.
func (n *NATSProcess) Start(ctx context.Context) error {
	if n.child != nil {
		return errors.New("it is running")
	}
	ctx, cancel := context.WithTimeout(ctx, natsReady)
	defer cancel()
	var err error
	if n.options.Dir, err = makeFolder(n.options.Dir); err != nil {
		return err
	}
	n.options.Port, err = onPort(n.options.Port, func(port int) error { return n.run(ctx, port) })
	return err
}

func (n *NATSProcess) run(ctx context.Context, port int) error {
	file := filepath.Join(n.options.Dir, "nats.conf")
	if err := os.WriteFile(file, []byte(n.config(port)), 0o600); err != nil {
		return err
	}
	output := newTail(n.options.Log)
	var err error
	if n.child, err = startChild(exec.Command(n.options.Program, "-c", file), syscall.SIGTERM, output); err != nil {
		return err
	}
	if err = n.ready(ctx, port); err == nil {
		return nil
	}
	err = errors.Join(err, n.child.kill())
	n.child = nil
	if output.contains("address already in use") {
		return portTaken(port)
	}
	return fmt.Errorf("%w\n%s", err, output)
}

func (n *NATSProcess) name(port int) string {
	if n.options.Name != "" {
		return n.options.Name
	}
	return fmt.Sprintf("local-%d-%d", os.Getpid(), port)
}

func (n *NATSProcess) config(port int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "listen: %q\nserver_name: %q\n", address(port), n.name(port))
	fmt.Fprintf(&out, "jetstream {\n  store_dir: %q\n", n.options.Dir)
	if n.options.MaxStore > 0 {
		fmt.Fprintf(&out, "  max_file_store: %d\n", n.options.MaxStore)
	}
	out.WriteString("}\n")
	if n.options.Deny != "" {
		fmt.Fprintf(&out, "no_auth_user: local\nauthorization {\n  users: [{user: local, password: local,\n"+
			"    permissions: {publish: {deny: %q}}}]\n}\n", n.options.Deny)
	}
	if len(n.options.Routes) > 0 {
		fmt.Fprintf(&out, "cluster {\n  name: local\n  listen: %q\n  routes: [\n", address(n.options.Routes[0]))
		for _, port := range n.options.Routes {
			fmt.Fprintf(&out, "    %q\n", "nats://"+address(port))
		}
		out.WriteString("  ]\n}\n")
	}
	return out.String()
}

// ready waits until the server greets by its name: another one may have taken
// the port, and then the child is about to end.
func (n *NATSProcess) ready(ctx context.Context, port int) error {
	ctx, cancel := n.child.whileAlive(ctx)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		name, err := greeting(ctx, port)
		if err == nil && name == n.name(port) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// greeting is the name by which the NATS server on a port greets.
func greeting(ctx context.Context, port int) (string, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address(port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", err
	}
	var info struct {
		Name string `json:"server_name"`
	}
	text, _ := strings.CutPrefix(line, "INFO ")
	err = json.Unmarshal([]byte(text), &info)
	return info.Name, err
}

// URL is the server's address.
func (n *NATSProcess) URL() string { return "nats://" + address(n.options.Port) }

// Close stops the server. It says so if the server had died before.
func (n *NATSProcess) Close() error {
	if n.child == nil {
		return nil
	}
	child := n.child
	n.child = nil
	return child.stop(step{syscall.SIGTERM, 20 * time.Second})
}

// Kill ends the server without giving it a chance.
func (n *NATSProcess) Kill() error {
	if n.child == nil {
		return nil
	}
	child := n.child
	n.child = nil
	return child.kill()
}

// Wipe removes everything that a server which does not run had stored.
func (n *NATSProcess) Wipe() error {
	if n.child != nil {
		return errors.New("it is running")
	}
	return os.RemoveAll(filepath.Join(n.options.Dir, "jetstream"))
}

// Pause is as [Postgres.Pause].
func (n *NATSProcess) Pause() error { return n.child.pause() }

// Resume is as [Postgres.Resume].
func (n *NATSProcess) Resume() error { return n.child.resume() }
