package store

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the histograms of the batched transactions, and the counters of
// what must not happen. The zero value counts nothing.
type metrics struct {
	size      metric.Int64Histogram
	duration  metric.Float64Histogram
	failures  metric.Int64Counter
	failovers metric.Int64Counter
	stales    metric.Int64Counter
	lost      metric.Int64Counter
}

func newMetrics(m metric.Meter) metrics {
	if m == nil {
		return metrics{}
	}
	var out metrics
	out.size, _ = m.Int64Histogram("countersign.store.batch.size", metric.WithDescription("Items of one commit"))
	out.duration, _ = m.Float64Histogram("countersign.store.transaction.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of one batched transaction"))
	out.failures, _ = m.Int64Counter("countersign.store.transaction.failures",
		metric.WithDescription("Batched transactions that failed as a whole and were retried item by item"))
	out.failovers, _ = m.Int64Counter("countersign.store.failovers",
		metric.WithDescription("Times that another database server was found to have taken over"))
	out.stales, _ = m.Int64Counter("countersign.store.stale.primaries",
		metric.WithDescription("Connections refused to a database server that has been replaced"))
	out.lost, _ = m.Int64Counter("countersign.store.lost",
		metric.WithDescription("Topics of which this node's acknowledged commits were gone after a failover"))
	return out
}

func (m metrics) batch(ctx context.Context, name string, size int, took time.Duration, err error) {
	if m.size == nil {
		return
	}
	attrs := metric.WithAttributes(attribute.String("transaction", name))
	m.size.Record(ctx, int64(size), attrs)
	m.duration.Record(ctx, took.Seconds(), attrs)
	if err != nil {
		m.failures.Add(ctx, 1, attrs)
	}
}

func (m metrics) failover()  { add(m.failovers, 1) }
func (m metrics) stale()     { add(m.stales, 1) }
func (m metrics) lose(n int) { add(m.lost, n) }

func add(counter metric.Int64Counter, n int) {
	if counter != nil {
		counter.Add(context.Background(), int64(n))
	}
}
