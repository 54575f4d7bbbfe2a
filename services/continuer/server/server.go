// Package server is the continuer service, wired: signals and sweeps in,
// hints and continuations out. Its main and `countersign dev` both run it.
package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/continuer/audit"
	"github.com/countersign/countersign/services/continuer/dispatch"
	"github.com/countersign/countersign/services/continuer/sink"
	"github.com/countersign/countersign/services/continuer/sweep"
)

// Config is the continuer's configuration.
type Config struct {
	daemon.Common

	Listen        string        `name:"listen" env:"COUNTERSIGN_CONTINUER_LISTEN" default:"127.0.0.1:8789" help:"Address of /healthz, /readyz and /metrics."`
	SweepInterval time.Duration `name:"sweep-interval" env:"COUNTERSIGN_SWEEP_INTERVAL" default:"5s" help:"How often everything is looked over for what a lost message or a dead process left behind."`
	AuditInterval time.Duration `name:"audit-interval" env:"COUNTERSIGN_AUDIT_INTERVAL" default:"1m" help:"How often what changed is held against the invariants; 0 never."`
	AllowTargets  []string      `name:"allow-targets" env:"COUNTERSIGN_ALLOW_TARGETS" placeholder:"CIDR|HOST" help:"Private and loopback addresses that webhooks may go to; none by default."`
}

// Command parses the configuration and runs the service until ctx ends.
func Command(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	var cfg Config
	if err := daemon.Parse("continuer", "Moves on what is due: run hints to workers, continuations to their sinks.",
		&cfg, args, getenv, stdout); err != nil {
		return err
	}
	log := daemon.NewLogger(stdout, cfg.LogFormat, cfg.LogLevel)
	daemon.Announce(log, &cfg, getenv)
	return Run(ctx, cfg, log)
}

// queue is the group of which one continuer gets each signal.
const queue = "continuer"

// Run runs the service until ctx ends.
func Run(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	telemetry, err := daemon.NewTelemetry(ctx, "countersign-continuer", daemon.Version())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, telemetry.Shutdown(context.WithoutCancel(ctx))) }()
	telemetry.Install(log)

	b, err := bus.Connect(cfg.NATSURL.Reveal(), "continuer", log, bus.WithMeter(telemetry.Meter), bus.WithReplicas(cfg.Replicas))
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
	dispatcher := dispatch.New(s, b, sink.NewWebhook(out.HTTPClient(sink.Timeout)), log, telemetry.Tracer, telemetry.Meter)
	sweeper := sweep.New(s, b, dispatcher.Dispatch, cfg.SweepInterval, log, telemetry.Meter)
	auditor, err := audit.NewAuditor(s, cfg.AuditInterval, log, telemetry.Meter)
	if err != nil {
		return err
	}
	cancel, err := b.SubscribeSignals(bus.SignalSubscription{
		Queue: queue, Handle: dispatcher.Look, Resync: func() { sweeper.Once(ctx) },
	})
	if err != nil {
		return err
	}
	defer cancel()

	listener, err := daemon.Listen(cfg.Listen, "--listen or COUNTERSIGN_CONTINUER_LISTEN")
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
		daemon.Part{Name: "dispatch", Run: dispatcher.Run},
		daemon.Part{Name: "sweep", Run: sweeper.Run},
		daemon.Part{Name: "chain", Run: audit.NewChainer(s, log).Run},
		daemon.Part{Name: "audit", Run: auditor.Run},
	)
}
