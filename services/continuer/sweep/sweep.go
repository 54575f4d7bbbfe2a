// Package sweep finds what a lost signal, a lost message or a dead process
// left behind, and what time alone makes due: deadlines, leases, holds. Each
// sweep is a small query and is idempotent, so every node runs all of them.
// With NATS switched off the sweeps are what the system runs on (I8).
package sweep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/store"
)

// Store is what is swept.
type Store interface {
	ExpireApprovals(ctx context.Context) (int, error)
	LapseHolds(ctx context.Context) (int, error)
	LoseLeases(ctx context.Context) (int, error)
	StopUnclaimed(ctx context.Context) (int, error)
	CloseDeadTurns(ctx context.Context) (int, error)
	FailContinuations(ctx context.Context) (int, error)
	OwedSignals(ctx context.Context, since time.Duration, limit int) ([]store.Change, error)
	DueAnywhere(ctx context.Context, unhinted, unclaimed time.Duration, limit int) (store.Due, error)
}

// Signals is where owed signals go.
type Signals interface {
	PublishSignals(ctx context.Context, signals []bus.Signal) error
}

const (
	// unhinted: a run that is queued this long without a hint is dispatched
	// by the sweep. Shorter, and it would only repeat what a signal does.
	unhinted = time.Second
	// unclaimed: a hint that came to nothing this long is given again.
	unclaimed = 30 * time.Second
	// owed: a signal that did not get through this long is sent again.
	owed = 3 * time.Second
	// limit bounds the rows of one look; what is left is due at the next.
	limit = 500
)

// Sweeper runs all sweeps every interval.
type Sweeper struct {
	store    Store
	signals  Signals
	dispatch func(context.Context, store.Due)
	interval time.Duration
	log      *slog.Logger
	found    metric.Int64Counter
}

// New makes a sweeper. dispatch moves on what is found due.
func New(
	s Store, signals Signals, dispatch func(context.Context, store.Due), interval time.Duration, log *slog.Logger, meter metric.Meter,
) *Sweeper {
	found, _ := meter.Int64Counter("countersign.sweep.found", metric.WithDescription("What sweeps found and moved on"))
	return &Sweeper{s, signals, dispatch, interval, log, found}
}

// Run sweeps until ctx ends: at once, and then every interval, give or take
// a fifth, so that nodes do not sweep in step.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		s.Once(ctx)
		jitter := rand.N(s.interval*2/5+1) - s.interval/5
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.interval + jitter):
		}
	}
}

// Once runs every sweep once. One that fails does not keep the others.
func (s *Sweeper) Once(ctx context.Context) {
	for _, sweep := range []struct {
		name string
		run  func(context.Context) (int, error)
	}{
		{"expired approvals", s.store.ExpireApprovals},
		{"lapsed holds", s.store.LapseHolds},
		{"lost leases", s.store.LoseLeases},
		{"unclaimed calls", s.store.StopUnclaimed},
		{"dead live turns", s.store.CloseDeadTurns},
		{"undeliverable continuations", s.store.FailContinuations},
		{"owed signals", s.signal},
		{"due rows", s.move},
	} {
		n, err := sweep.run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.WarnContext(ctx, "a sweep failed", "sweep", sweep.name, "err", err)
		case n > 0:
			s.found.Add(ctx, int64(n), metric.WithAttributes(attribute.String("sweep", sweep.name)))
			s.log.DebugContext(ctx, "a sweep found something", "sweep", sweep.name, "found", n)
		}
	}
}

func (s *Sweeper) signal(ctx context.Context) (int, error) {
	changes, err := s.store.OwedSignals(ctx, owed, limit)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	signals := make([]bus.Signal, len(changes))
	for i, c := range changes {
		signals[i] = bus.Signal{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version}
	}
	if err := failpoint.Hit(ctx, failpoint.SweepBeforeSignal); err != nil {
		return 0, err
	}
	// With NATS away they stay owed.
	_ = s.signals.PublishSignals(ctx, signals)
	return len(changes), nil
}

func (s *Sweeper) move(ctx context.Context) (int, error) {
	due, err := s.store.DueAnywhere(ctx, unhinted, unclaimed, limit)
	if err != nil {
		return 0, err
	}
	if err := failpoint.Hit(ctx, failpoint.SweepBeforeDispatch); err != nil {
		return 0, err
	}
	s.dispatch(ctx, due)
	return len(due.Runs) + len(due.Continuations), nil
}
