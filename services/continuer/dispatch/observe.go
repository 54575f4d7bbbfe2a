package dispatch

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// step records one dispatch as a span of the trace that registered the turn,
// and gives the traceparent that the message carries on.
func (d *Dispatcher) step(ctx context.Context, name, traceparent, key, id string) string {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	ctx = propagation.TraceContext{}.Extract(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), carrier)
	ctx, span := d.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("countersign."+key, id)))
	span.End()
	if !span.SpanContext().IsValid() {
		return traceparent
	}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

type counters struct {
	dispatched, failed metric.Int64Counter
}

func newCounters(meter metric.Meter) counters {
	var c counters
	c.dispatched, _ = meter.Int64Counter("countersign.dispatched",
		metric.WithDescription("Run hints, calls, continuations and webhooks that were dispatched"))
	c.failed, _ = meter.Int64Counter("countersign.dispatch.failures",
		metric.WithDescription("Those that were not, and are due again"))
	return c
}

// account counts what became of n messages, and logs why some are due again.
func (d *Dispatcher) account(ctx context.Context, kind string, n, acked int, err error) {
	attrs := metric.WithAttributes(attribute.String("kind", kind))
	d.counts.dispatched.Add(ctx, int64(acked), attrs)
	if acked < n {
		d.counts.failed.Add(ctx, int64(n-acked), attrs)
		d.log.WarnContext(ctx, "not dispatched, it will be again", "kind", kind, "messages", n-acked, "err", err)
	}
}
