package step

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const key = "traceparent"

// Under gives ctx below the span that a W3C traceparent names, instead of the
// one that it was below. A traceparent that is none begins a new trace.
func Under(ctx context.Context, traceparent string) context.Context {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{key: traceparent})
}

// Traceparent names the span of ctx, or gives "".
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[key]
}
