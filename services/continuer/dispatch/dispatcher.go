package dispatch

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/continuer/sink"
)

// Store is what a dispatcher reads and marks.
type Store interface {
	LapseHolds(ctx context.Context) (int, error)
	DueIn(ctx context.Context, topics []store.TopicKey) (store.Due, error)
	Mark(ctx context.Context, m store.Marks) error
	LeaseDelivery(ctx context.Context, c store.DueContinuation, lease time.Duration) (bool, error)
	DeliveryFailed(ctx context.Context, c store.DueContinuation, reason string, again time.Duration) error
	SigningSecrets(ctx context.Context, tenant model.TenantID) ([]string, error)
}

// Bus is where hints and JetStream sinks are.
type Bus interface {
	PublishRuns(ctx context.Context, hints []bus.RunHint) ([]bus.RunHint, error)
	PublishModelHints(ctx context.Context, hints []bus.ModelHint) ([]bus.ModelHint, error)
	PublishContinuations(ctx context.Context, messages []bus.ContinuationMessage) ([]bus.ContinuationMessage, error)
}

// Webhook sends one signed delivery.
type Webhook interface {
	Send(ctx context.Context, d sink.Delivery) error
}

// Dispatcher moves due rows on.
type Dispatcher struct {
	store   Store
	bus     Bus
	webhook Webhook
	log     *slog.Logger
	steps   step.Observer

	dirty  *bus.Dirty
	marks  *marks
	flight chan struct{} // a token per webhook under way
	counts counters
}

const (
	// takeLimit bounds the topics of one look.
	takeLimit = 512
	// webhooks is how many webhooks may be under way at once: each can take
	// as long as sink.Timeout.
	webhooks = 64
	// deliveryLease keeps a continuation to one node while its webhook is
	// under way.
	deliveryLease = sink.Timeout + 5*time.Second
)

// New makes a dispatcher.
func New(s Store, b Bus, w Webhook, log *slog.Logger, tracer trace.Tracer, meter metric.Meter) *Dispatcher {
	return &Dispatcher{
		store: s, bus: b, webhook: w, log: log, steps: step.NewObserver(tracer, meter),
		dirty: bus.NewDirty(), marks: newMarks(), flight: make(chan struct{}, webhooks), counts: newCounters(meter),
	}
}

// Look marks a topic to be looked at, and that its signal came. It never
// blocks.
func (d *Dispatcher) Look(s bus.Signal) {
	d.dirty.Mark(s)
	d.marks.signalled(s)
}

// Run looks at marked topics until ctx ends, and then writes down what it
// did.
func (d *Dispatcher) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.marks.run(ctx, d.store, d.log)
	}()
	for {
		select {
		case <-ctx.Done():
			<-done
			d.waitForWebhooks()
			return nil
		case <-d.dirty.Wakeup():
			d.lookAt(ctx, d.dirty.Take())
		}
	}
}

func (d *Dispatcher) lookAt(ctx context.Context, signals []bus.Signal) {
	for len(signals) > 0 {
		n := min(len(signals), takeLimit)
		keys := make([]store.TopicKey, n)
		for i, s := range signals[:n] {
			keys[i] = store.TopicKey{Tenant: s.Tenant, Topic: s.Topic}
		}
		signals = signals[n:]
		due, err := d.dueIn(ctx, keys)
		if err != nil {
			// The sweep finds what this look would have found.
			d.log.WarnContext(ctx, "topics could not be read, the sweep will", "topics", n, "err", err)
			return
		}
		d.Dispatch(ctx, due)
		if due.Queued { // a turn before a queued reply may just have ended
			if _, err := d.store.LapseHolds(ctx); err != nil {
				d.log.WarnContext(ctx, "a queued reply could not be let go, the sweep will", "err", err)
			}
		}
	}
}

func (d *Dispatcher) dueIn(ctx context.Context, keys []store.TopicKey) (store.Due, error) {
	if err := failpoint.Hit(ctx, failpoint.LookBeforeRead); err != nil {
		return store.Due{}, err
	}
	return d.store.DueIn(ctx, keys)
}

// Dispatch moves due rows on. What cannot be published now is due again at
// the next sweep.
func (d *Dispatcher) Dispatch(ctx context.Context, due store.Due) {
	d.dispatchRuns(ctx, due.Runs)
	d.dispatchContinuations(ctx, due.Continuations)
}

func (d *Dispatcher) waitForWebhooks() {
	for range webhooks {
		d.flight <- struct{}{}
	}
}
