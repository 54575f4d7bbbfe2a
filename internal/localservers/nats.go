package localservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsReady bounds a start; recovering a development stream takes seconds.
const natsReady = 30 * time.Second

// NATSOptions say where and how to run a NATS server. Only Dir is required.
type NATSOptions struct {
	// Dir holds JetStream's files; it is made if missing.
	Dir string
	// Port on 127.0.0.1; 0 picks a free one.
	Port int
	// Log receives the server's log; nil drops it.
	Log io.Writer
}

// NATS is the real nats-server inside this process, with JetStream, open to
// other processes of this machine. It runs from [StartNATS] until
// [NATS.Close]. Its methods are not for concurrent use.
type NATS struct {
	options NATSOptions
	server  *server.Server
}

// StartNATS starts a server and returns when it accepts connections. ctx
// bounds the start alone. A taken port names its holder.
func StartNATS(ctx context.Context, options NATSOptions) (*NATS, error) {
	n := &NATS{options: options}
	if err := n.Start(ctx); err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	return n, nil
}

// Start runs the server again after Close, on the same folder and port.
func (n *NATS) Start(ctx context.Context) error {
	if n.server != nil {
		return errors.New("it is running")
	}
	var err error
	if n.options.Dir, err = makeFolder(n.options.Dir); err != nil {
		return err
	}
	n.options.Port, err = onPort(n.options.Port, func(port int) error { return n.run(ctx, port) })
	return err
}

// Wipe removes everything that JetStream stored. The server is closed.
func (n *NATS) Wipe() error {
	if n.server != nil {
		return errors.New("it is running")
	}
	return os.RemoveAll(filepath.Join(n.options.Dir, "jetstream"))
}

func (n *NATS) run(ctx context.Context, port int) error {
	started, err := server.NewServer(&server.Options{
		Host: loopback, Port: port, JetStream: true, StoreDir: n.options.Dir,
		NoSigs: true, // signals belong to this process
	})
	if err != nil {
		return err
	}
	output := newTail(n.options.Log)
	started.SetLoggerV2(&natsLog{output: output}, false, false, false)
	started.Start()
	if err := waitReady(ctx, started, output); err != nil {
		started.Shutdown()
		started.WaitForShutdown()
		if output.contains("address already in use") {
			return portTaken(port)
		}
		return fmt.Errorf("%w\n%s", err, output)
	}
	n.server = started
	return nil
}

func waitReady(ctx context.Context, started *server.Server, output *tail) error {
	ctx, cancel := context.WithTimeout(ctx, natsReady)
	defer cancel()
	for !started.ReadyForConnections(20 * time.Millisecond) {
		switch {
		case output.contains("[fatal]"):
			return errors.New("it ended at once")
		case ctx.Err() != nil:
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		}
	}
	return nil
}

// URL is the server's address.
func (n *NATS) URL() string { return "nats://" + address(n.options.Port) }

// Close stops the server, closes every connection, and returns when its files
// are written.
func (n *NATS) Close() error {
	if n.server == nil {
		return nil
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
	return nil
}

// natsLog writes the server's log as lines. Its Fatalf does not end this
// process: the start reports the failure instead.
type natsLog struct{ output io.Writer }

func (l *natsLog) line(level, format string, args []any) {
	fmt.Fprintf(l.output, "[%s] %s\n", level, fmt.Sprintf(format, args...))
}

func (l *natsLog) Noticef(format string, args ...any) { l.line("notice", format, args) }
func (l *natsLog) Warnf(format string, args ...any)   { l.line("warn", format, args) }
func (l *natsLog) Errorf(format string, args ...any)  { l.line("error", format, args) }
func (l *natsLog) Fatalf(format string, args ...any)  { l.line("fatal", format, args) }
func (l *natsLog) Debugf(format string, args ...any)  { l.line("debug", format, args) }
func (l *natsLog) Tracef(format string, args ...any)  { l.line("trace", format, args) }
