// Package server is the worker service, wired: hints and queued rows in, tool
// calls and their committed results out. Its main and `countersign dev` both
// run it.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/worker/imports"
	"github.com/countersign/countersign/services/worker/mcp"
	"github.com/countersign/countersign/services/worker/pipeline"
	"github.com/countersign/countersign/services/worker/tool"
)

// Config is the worker's configuration.
type Config struct {
	daemon.Common

	Listen       string        `name:"listen" env:"COUNTERSIGN_WORKER_LISTEN" default:"127.0.0.1:8788" help:"Address of /healthz, /readyz and /metrics."`
	Slots        int           `name:"slots" env:"COUNTERSIGN_WORKER_SLOTS" default:"64" help:"Calls that run at once."`
	Lease        time.Duration `name:"lease" env:"COUNTERSIGN_WORKER_LEASE" default:"60s" help:"How long a claimed call is this worker's without being renewed. Renewed four times as often."`
	Poll         time.Duration `name:"poll" env:"COUNTERSIGN_WORKER_POLL" default:"3s" help:"How often free slots look for queued calls themselves, which is what runs with NATS off."`
	AllowTargets []string      `name:"allow-targets" env:"COUNTERSIGN_ALLOW_TARGETS" placeholder:"CIDR|HOST" help:"Private and loopback addresses that tools and the model may be at; none by default."`

	Model ModelConfig `embed:"" prefix:"model-"`
}

// Command parses the configuration and runs the service until ctx ends.
func Command(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cfg Config
	if err := daemon.Parse("worker", "Runs approved tool calls, each exactly once.", &cfg, args, getenv, stdout); err != nil {
		return err
	}
	log := daemon.NewLogger(stdout, cfg.LogFormat, cfg.LogLevel)
	daemon.Announce(log, &cfg, getenv)
	return Run(ctx, cfg, log)
}

// Run runs the service until ctx ends.
func Run(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	telemetry, err := daemon.NewTelemetry(ctx, "countersign-worker", daemon.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telemetry.Shutdown(context.WithoutCancel(ctx))) }()
	telemetry.Install(log)

	b, err := bus.Connect(cfg.NATSURL.Reveal(), "worker", log, bus.WithMeter(telemetry.Meter), bus.WithReplicas(cfg.Replicas))
	if err != nil {
		return err
	}
	defer b.Close()
	s, err := store.New(cfg.DatabaseURL.Reveal(), store.Options{Log: log, Meter: telemetry.Meter, Changed: b.Announce})
	if err != nil {
		return err
	}
	defer s.Close()
	out, err := egress.NewEgress(cfg.AllowTargets)
	if err != nil {
		return err
	}
	tools := newTools(out, log)
	defer tools.close()
	importer := imports.New(s, tools.servers, log)
	tools.onChange = importer.Changed
	worker := pipeline.New(s, b, tools, pipeline.Options{
		Name: name(), Version: daemon.Version(), Slots: cfg.Slots, Lease: cfg.Lease, Poll: cfg.Poll,
	}, log, telemetry.Tracer, telemetry.Meter)
	loop, err := newLoop(cfg.Model, s, b, out, log, telemetry)
	if err != nil {
		return err
	}
	defer breakOffBefore(ctx, cfg.Grace, func() { worker.Kill(); loop.kill() })()

	listener, err := daemon.Listen(cfg.Listen, "--listen or COUNTERSIGN_WORKER_LISTEN")
	if err != nil {
		return err
	}
	health := daemon.NewHealth(log)
	health.Require("postgres", s.Ping)
	health.Watch("nats", b.Check)
	defer context.AfterFunc(ctx, health.Drain)()
	handler := health.Handler(telemetry.Handler)
	return daemon.Run(ctx, log, cfg.Grace,
		daemon.Part{Name: "health", Run: func(ctx context.Context) error { return daemon.Serve(ctx, listener, handler, 0) }},
		daemon.Part{Name: "database", Run: s.Run},
		daemon.Part{Name: "streams", Run: b.Run},
		daemon.Part{Name: "imports", Run: importer.Run},
		daemon.Part{Name: "pipeline", Run: worker.Run},
		daemon.Part{Name: "model", Run: loop.run},
	)
}

// breakOffBefore calls kill shortly before the grace time after ctx is over,
// so that what was broken off can still be recorded.
func breakOffBefore(ctx context.Context, grace time.Duration, kill func()) (cancel func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(grace * 3 / 4):
			kill()
		}
	}()
	return func() { close(done) }
}

// name is unique among running workers, and says where to look for this one.
func name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), model.NewToken()[28:])
}

// tools finds the executor of a call.
type tools struct {
	http     *tool.HTTP
	servers  *mcp.Pool
	onChange func(tenant model.TenantID, server string)
}

func newTools(out *egress.Egress, log *slog.Logger) *tools {
	t := &tools{http: tool.NewHTTP(out), onChange: func(model.TenantID, string) {}}
	t.servers = mcp.NewPool(mcp.Options{Egress: out, Log: log, ToolsChanged: func(tenant model.TenantID, server string) {
		t.onChange(tenant, server)
	}})
	return t
}

// Runner gives the executor of a prepared call's tool.
func (t *tools) Runner(p store.Prepared) (tool.Runner, error) {
	def := model.Tool{Definition: p.Definition, Secrets: p.Secrets}
	switch {
	case p.Definition.HTTP != nil:
		return t.http.Runner(def), nil
	case p.Definition.MCP != nil && p.Server != nil:
		return t.servers.Runner(*p.Server, def), nil
	}
	return nil, fmt.Errorf("nothing here runs this tool: %w", tool.ErrForGood)
}

func (t *tools) close() {
	t.servers.Close()
	t.http.Close()
}
