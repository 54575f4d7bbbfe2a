package bus

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the counters of the bus. The attribute "kind" is the traffic
// (signal, run, continuation, heartbeat) or the operation that failed.
type metrics struct {
	published, delivered, acked, failures, redeliveries, garbage, surplus, resyncs, rebuilds metric.Int64Counter

	delay metric.Float64Histogram
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var m metrics
	var errs []error
	for _, c := range []struct {
		counter           *metric.Int64Counter
		name, description string
	}{
		{&m.published, "published", "Messages published: acknowledged by a stream, or handed to the server for signals."},
		{&m.delivered, "delivered", "Messages that were delivered: of a stream to a consumer, or signals heard."},
		{&m.acked, "acked", "Delivered messages whose acknowledgement the server confirmed."},
		{&m.failures, "failures", "Publishes and acknowledgements whose outcome is not known or not good."},
		{&m.redeliveries, "redeliveries", "Messages delivered for more than the first time."},
		{&m.garbage, "garbage", "Messages that made no sense and were dropped or terminated."},
		{&m.surplus, "surplus", "Messages given back because their slot was taken meanwhile."},
		{&m.resyncs, "resyncs", "Times that signals may have been missed and everything was read again."},
		{&m.rebuilds, "rebuilds", "Times that a consumer was set up again after a fault."},
	} {
		var err error
		*c.counter, err = meter.Int64Counter("countersign.bus."+c.name, metric.WithDescription(c.description))
		errs = append(errs, err)
	}
	var err error
	m.delay, err = meter.Float64Histogram("countersign.bus.delivery.delay", metric.WithUnit("s"),
		metric.WithDescription("From the stream's storing a message, by the server's clock, to its first delivery here."))
	return &m, errors.Join(append(errs, err)...)
}

// deliver counts a message that a stream delivered, and how long it was on
// its way when this is the first time.
func (m *metrics) deliver(kind string, deliveries int, stored time.Time) {
	attributes := metric.WithAttributeSet(attribute.NewSet(attribute.String("kind", kind)))
	m.delivered.Add(context.Background(), 1, attributes)
	if deliveries > 1 {
		m.redeliveries.Add(context.Background(), 1, attributes)
	} else if !stored.IsZero() {
		m.delay.Record(context.Background(), max(time.Since(stored), 0).Seconds(), attributes)
	}
}

func count(counter metric.Int64Counter, n int, kind string) {
	if n > 0 {
		counter.Add(context.Background(), int64(n), metric.WithAttributeSet(attribute.NewSet(attribute.String("kind", kind))))
	}
}
