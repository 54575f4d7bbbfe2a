package dispatch

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
)

// The two steps that happen here.
const (
	dispatching = "dispatch" // of a queued run
	continuing  = "continue"
)

// dispatch begins to hint at a run, as a step of the trace that registered
// its turn; the traceparent goes with the message.
func (d *Dispatcher) dispatch(ctx context.Context, r store.DueRun) (traceparent string, at *step.Step) {
	ctx, at = d.steps.Begin(step.Under(ctx, r.Traceparent), dispatching, producer, trace.WithAttributes(
		attribute.String("countersign.call", string(r.Call)), attribute.String("countersign.executor", string(r.Executor)),
		attribute.String("countersign.topic", string(r.Topic)), attribute.Int("countersign.publish", r.Published)))
	return step.Traceparent(ctx), at
}

// carryOn is dispatch for a continuation.
func (d *Dispatcher) carryOn(ctx context.Context, c store.DueContinuation) (traceparent string, at *step.Step) {
	ctx, at = d.steps.Begin(step.Under(ctx, c.Traceparent), continuing, producer, trace.WithAttributes(
		attribute.String("countersign.turn", string(c.Turn)), attribute.String("countersign.topic", string(c.Topic)),
		attribute.String("countersign.sink", string(c.Sink.Type)), attribute.Int("countersign.delivery", c.Deliveries)))
	return step.Traceparent(ctx), at
}

var producer = trace.WithSpanKind(trace.SpanKindProducer)

// underWay are the steps of one batch of messages, by message id.
type underWay map[string]*step.Step

// done ends the step of a message that was acknowledged.
func (u underWay) done(id string) {
	if at := u[id]; at != nil {
		at.End(nil)
		delete(u, id)
	}
}

// fail ends what is left.
func (u underWay) fail(err error) {
	for _, at := range u {
		at.End(err)
	}
}

type counters struct {
	dispatched, failed metric.Int64Counter
}

func newCounters(meter metric.Meter) counters {
	var c counters
	c.dispatched, _ = meter.Int64Counter("countersign.dispatched",
		metric.WithDescription("What was handed over: run hints, calls of callers, continuations"))
	c.failed, _ = meter.Int64Counter("countersign.dispatch.failures",
		metric.WithDescription("What was not handed over, and is due again"))
	return c
}

// account counts what became of n messages of a kind (run, call, continuation)
// that went by jetstream or webhook, and logs why some are due again.
func (d *Dispatcher) account(ctx context.Context, kind, via string, n, acked int, err error) {
	attrs := metric.WithAttributes(attribute.String("kind", kind), attribute.String("via", via))
	d.counts.dispatched.Add(ctx, int64(acked), attrs)
	if acked < n {
		d.counts.failed.Add(ctx, int64(n-acked), attrs)
		d.log.WarnContext(ctx, "not dispatched, it will be again", "kind", kind, "via", via, "messages", n-acked, "err", err)
	}
}
