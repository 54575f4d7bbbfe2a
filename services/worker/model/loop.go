package model

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Store is what the loop reads, beside what the use cases do.
type Store interface {
	approval.Store
	Unanswered(ctx context.Context, since time.Duration, limit int) ([]store.Unanswered, error)
	Messages(ctx context.Context, tenant model.TenantID, topic model.TopicID, r store.Range) (store.History, error)
	Tools(ctx context.Context, tenant model.TenantID, after string, limit int) ([]store.ToolRow, error)
}

// Bus is where hints come from and chunks go.
type Bus interface {
	ConsumeModelHints(ctx context.Context, options bus.ConsumeOptions, handle func(bus.ModelDelivery)) error
	PublishChunks(ctx context.Context, c bus.Chunks) error
}

// Options are what the loop may be told.
type Options struct {
	Ask    model.Ask     // where a turn says nothing
	Slots  int           // answers at once
	Poll   time.Duration // how often free slots look at the rows
	Expiry time.Duration // how long approvals stay open
	Silent time.Duration // how long a provider may say nothing
}

// Loop answers.
type Loop struct {
	store    Store
	bus      Bus
	cases    *approval.Service
	provider *Provider
	o        Options
	log      *slog.Logger
	tracer   trace.Tracer
	meters   meters

	slots   *bus.Slots
	running sync.WaitGroup

	// hard ends when the grace time is over: what still streams then is let
	// go, for another worker.
	hard context.Context
	kill context.CancelFunc
}

// New makes a loop.
func New(s Store, b Bus, p *Provider, o Options, log *slog.Logger, tracer trace.Tracer, meter metric.Meter) *Loop {
	hard, kill := context.WithCancel(context.Background())
	return &Loop{
		store: s, bus: b, cases: approval.New(s, o.Expiry).Observe(tracer, meter), provider: p, o: o,
		log: log, tracer: tracer, meters: newMeters(meter), slots: bus.NewSlots(o.Slots), hard: hard, kill: kill,
	}
}

// consumer is the durable consumer that all workers share.
const consumer = "workers"

// Run takes in work until ctx ends, and returns when what it had begun is
// done. Kill makes that soon.
func (l *Loop) Run(ctx context.Context) error {
	var intake sync.WaitGroup
	intake.Go(func() { l.poll(ctx) })
	err := l.bus.ConsumeModelHints(ctx, bus.ConsumeOptions{Durable: consumer, Slots: l.slots}, func(d bus.ModelDelivery) {
		l.running.Go(func() { l.deliver(d) })
	})
	intake.Wait()
	l.running.Wait()
	l.kill()
	return err
}

// Kill breaks off what still streams.
func (l *Loop) Kill() { l.kill() }

// deliver answers a hint and settles it.
func (l *Loop) deliver(d bus.ModelDelivery) {
	defer d.Working()()
	d.Settle(l.answer(d.Hint.Tenant, d.Hint.Turn, d.Traceparent))
}

// pollAge: a continuation that became due later than this is left to its hint.
const pollAge = 2 * time.Second

// poll looks for continuations while slots are free.
func (l *Loop) poll(ctx context.Context) {
	l.slots.Fill(ctx, l.o.Poll, &l.running, func(n int) (work []func()) {
		due, err := l.store.Unanswered(ctx, pollAge, n)
		if err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "continuations could not be read", "err", err)
		}
		for _, u := range due {
			work = append(work, func() {
				if err := l.answer(u.Tenant, u.Turn, u.Traceparent); err != nil {
					l.log.Debug("a continuation was left", "turn", u.Turn, "err", err)
				}
			})
		}
		return work
	})
}
