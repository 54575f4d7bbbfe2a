package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/worker/tool"
)

// Store is what a worker reads and commits.
type Store interface {
	Prepare(ctx context.Context, tenant model.TenantID, call model.CallID) (store.Prepared, error)
	Claim(ctx context.Context, tenant model.TenantID, call model.CallID, claim model.Claim) (store.Claimed, error)
	Finish(ctx context.Context, tenant model.TenantID, call model.CallID, fence int64, token string, r model.Result) (store.Finished, error)
	StopQueued(ctx context.Context, tenant model.TenantID, call model.CallID, text string) error
	RenewLeases(ctx context.Context, tenant model.TenantID, renewals []store.Renewal, leaseMS int64) ([]store.Renewed, error)
	QueuedRuns(ctx context.Context, since time.Duration, limit int) ([]store.QueuedRun, error)
}

// Bus is where hints come from and heartbeats go.
type Bus interface {
	ConsumeRuns(ctx context.Context, options bus.ConsumeOptions, handle func(bus.Delivery)) error
	PublishHeartbeat(ctx context.Context, heartbeat bus.Heartbeat) error
}

// Tools gives the executor of a prepared call's tool.
type Tools interface {
	Runner(p store.Prepared) (tool.Runner, error)
}

// Options are what a worker may be told.
type Options struct {
	Name    string        // unique among running workers
	Version string        // shown in heartbeats
	Slots   int           // calls at once
	Lease   time.Duration // of a claim; renewed while the call runs
	Poll    time.Duration // how often free slots look at the rows
}

// Worker runs calls.
type Worker struct {
	store  Store
	bus    Bus
	tools  Tools
	o      Options
	log    *slog.Logger
	tracer trace.Tracer
	steps  step.Observer
	meters meters

	slots   *bus.Slots
	running sync.WaitGroup
	owned   owned

	// hard ends when the grace time is over: what still runs then is broken
	// off, and its outcome recorded as what it is, unknown.
	hard context.Context
	kill context.CancelFunc
}

// New makes a worker.
func New(s Store, b Bus, t Tools, o Options, log *slog.Logger, tracer trace.Tracer, meter metric.Meter) *Worker {
	hard, kill := context.WithCancel(context.Background())
	return &Worker{
		store: s, bus: b, tools: t, o: o, log: log, tracer: tracer, steps: step.NewObserver(tracer, meter), meters: newMeters(meter),
		slots: bus.NewSlots(o.Slots), owned: owned{runs: map[string]*ownedRun{}}, hard: hard, kill: kill,
	}
}

// consumer is the durable consumer that all workers share.
const consumer = "workers"

// Run takes in work until ctx ends, and returns when what it had begun is
// done. Kill makes that soon.
func (w *Worker) Run(ctx context.Context) error {
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { w.renew(stop) })
	helpers.Go(func() { w.beat(stop) })
	var intake sync.WaitGroup
	intake.Go(func() { w.poll(ctx) })
	err := w.bus.ConsumeRuns(ctx, bus.ConsumeOptions{Durable: consumer, Slots: w.slots}, func(d bus.Delivery) {
		w.running.Go(func() { w.deliver(d) })
	})
	intake.Wait()
	w.running.Wait()
	close(stop)
	helpers.Wait()
	w.kill()
	return err
}

// Kill breaks off what still runs; each outcome is recorded by the tool's
// effect.
func (w *Worker) Kill() { w.kill() }

// deliver runs the call of a hint and settles the hint by what came of it.
func (w *Worker) deliver(d bus.Delivery) {
	defer d.Working()()
	err := w.call(d.Hint.Tenant, d.Hint.Call, d.Traceparent)
	if late, ok := isLater(err); ok {
		d.NakWithDelay(late)
		return
	}
	d.Settle(err)
}

// pollAge: a row younger than this is left to its hint.
const pollAge = 2 * time.Second

// poll looks for queued rows while slots are free.
func (w *Worker) poll(ctx context.Context) {
	w.slots.Fill(ctx, w.o.Poll, &w.running, func(n int) (work []func()) {
		runs, err := w.store.QueuedRuns(ctx, pollAge, n)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "queued runs could not be read", "err", err)
		}
		for _, r := range runs {
			work = append(work, func() {
				if err := w.call(r.Tenant, r.Call, r.Traceparent); err != nil {
					w.log.Debug("a queued run was left", "call", r.Call, "err", err)
				}
			})
		}
		return work
	})
}

const beatEvery = 5 * time.Second

func (w *Worker) beat(stop <-chan struct{}) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(w.hard, beatEvery)
		_ = w.bus.PublishHeartbeat(ctx, bus.Heartbeat{
			Worker: w.o.Name, Version: w.o.Version, Slots: w.o.Slots, Running: w.owned.len(), At: time.Now().UTC(),
		})
		cancel()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}
