package pipeline

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are the worker's histograms: how long a run waited for its start,
// how long tools ran and how they ended.
type meters struct {
	waits, runs metric.Float64Histogram
}

func newMeters(m metric.Meter) meters {
	var out meters
	out.waits, _ = m.Float64Histogram("countersign.run.wait", metric.WithUnit("s"),
		metric.WithDescription("From queued to started"))
	out.runs, _ = m.Float64Histogram("countersign.run.duration", metric.WithUnit("s"),
		metric.WithDescription("From the first outside byte to the outcome"))
	return out
}

func (m meters) waited(ctx context.Context, d time.Duration) {
	m.waits.Record(ctx, max(d, 0).Seconds())
}

func (m meters) ran(ctx context.Context, tool, outcome string, d time.Duration) {
	m.runs.Record(ctx, d.Seconds(), metric.WithAttributes(attribute.String("tool", tool), attribute.String("outcome", outcome)))
}
