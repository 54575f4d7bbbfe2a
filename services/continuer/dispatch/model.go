package dispatch

import (
	"context"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/store"
)

// unanswered: a hint to the model loop that came to nothing this long is given
// again, as one at a run is. Workers are ours, and accept before they ask a
// model, so this says nothing about how long a model may take.
const unanswered = 30 * time.Second

// hintAtModel hands ready continuations to the model loop of the workers.
func (d *Dispatcher) hintAtModel(ctx context.Context, due []store.DueContinuation) {
	if len(due) == 0 {
		return
	}
	hints := make([]bus.ModelHint, len(due))
	steps := underWay{}
	for i, c := range due {
		hints[i] = bus.ModelHint{Tenant: c.Tenant, Turn: c.Turn, Generation: c.Generation, Delivery: c.Deliveries}
		hints[i].Traceparent, steps[deliveryID(c)] = d.carryOn(ctx, c)
	}
	acked, err := d.publishModelHints(ctx, hints)
	known := map[bus.ModelHint]bool{}
	for _, h := range acked {
		known[h] = true
	}
	for i, c := range due {
		if known[hints[i]] {
			c.Sink.AcceptWithin = min(c.Sink.AcceptWithin, unanswered)
			d.marks.delivered(c)
			steps.done(deliveryID(c))
		}
	}
	steps.fail(err)
	for _, c := range due {
		d.marks.abandon(deliveryID(c))
	}
	d.account(ctx, "continuation", viaJetStream, len(hints), len(acked), err)
}

// publishModelHints gives those that the stream has.
func (d *Dispatcher) publishModelHints(ctx context.Context, hints []bus.ModelHint) ([]bus.ModelHint, error) {
	if err := failpoint.Hit(ctx, failpoint.SinkBeforeSend); err != nil {
		return nil, err
	}
	acked, err := d.bus.PublishModelHints(ctx, hints)
	if lost := failpoint.Hit(ctx, failpoint.SinkAfterSend); lost != nil {
		return nil, lost
	}
	return acked, err
}
