package bus

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the counters of the bus. The attribute "kind" is the traffic
// (signal, run, continuation, heartbeat) or the operation that failed.
type metrics struct {
	published, acked, failures, redeliveries, garbage, surplus, resyncs, rebuilds metric.Int64Counter
}

func newMetrics(meter metric.Meter) (*metrics, error) {
	var m metrics
	var errs []error
	for _, c := range []struct {
		counter           *metric.Int64Counter
		name, description string
	}{
		{&m.published, "published", "Messages published: acknowledged by a stream, or handed to the server for signals."},
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
	return &m, errors.Join(errs...)
}

func count(counter metric.Int64Counter, n int, kind string) {
	if n > 0 {
		counter.Add(context.Background(), int64(n), metric.WithAttributeSet(attribute.NewSet(attribute.String("kind", kind))))
	}
}
