package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/continuer/sink"
)

// dispatchContinuations hands ready continuations to their sinks. Delivery is
// not acceptance: one that nobody accepts within its time is due again.
func (d *Dispatcher) dispatchContinuations(ctx context.Context, due []store.DueContinuation) {
	var messages []bus.ContinuationMessage
	var toModel []store.DueContinuation
	byID, steps := map[string]store.DueContinuation{}, underWay{}
	for _, c := range due {
		id := deliveryID(c)
		if !d.marks.begin(id) {
			continue
		}
		switch c.Sink.Type {
		case model.SinkWebhook:
			d.continueByWebhook(ctx, c)
			continue
		case model.SinkModel:
			toModel = append(toModel, c)
			continue
		}
		byID[id] = c
		m := bus.ContinuationMessage{Tenant: c.Tenant, Sink: c.Sink.Name, ID: id, Body: continuationReady(c)}
		m.Traceparent, steps[id] = d.carryOn(ctx, c)
		messages = append(messages, m)
	}
	d.hintAtModel(ctx, toModel)
	if len(messages) == 0 {
		return
	}
	acked, err := d.publish(ctx, messages)
	for _, m := range acked {
		c := byID[m.ID]
		d.marks.delivered(c)
		delete(byID, m.ID)
		steps.done(m.ID)
	}
	steps.fail(err)
	for id := range byID {
		d.marks.abandon(id)
	}
	d.account(ctx, "continuation", viaJetStream, len(messages), len(acked), err)
}

// deliveryID names one delivery: a redelivery that is meant is another
// message.
func deliveryID(c store.DueContinuation) string {
	return fmt.Sprintf("%s:%d:%d", c.Turn, c.Generation, c.Deliveries)
}

// webhookID names the continuation over all of its deliveries, so that a
// receiver knows one that it had before.
func webhookID(c store.DueContinuation) string {
	return fmt.Sprintf("cont_%s_%d", c.Turn, c.Generation)
}

// continuationReady is the continuation as it is delivered: ids only, and the
// notes. Whoever gets it reads the rows.
func continuationReady(c store.DueContinuation) []byte {
	notes := c.Notes
	if notes == nil {
		notes = []model.Note{}
	}
	body, _ := json.Marshal(event{Type: "continuation.ready", Timestamp: time.Now().UTC(), Data: continuationData{
		ContinuationID: c.Turn, Topic: c.Topic, Turn: c.Turn, MessageID: c.Message, Version: c.Version, Notes: notes,
	}})
	return body
}

type continuationData struct {
	ContinuationID model.TurnID    `json:"continuationId"`
	Topic          model.TopicID   `json:"topic"`
	Turn           model.TurnID    `json:"turn"`
	MessageID      model.MessageID `json:"messageId"`
	Version        int64           `json:"version"`
	Notes          []model.Note    `json:"notes"`
}

// continueByWebhook takes the continuation for one delivery and sends it,
// beside whatever else is dispatched.
func (d *Dispatcher) continueByWebhook(ctx context.Context, c store.DueContinuation) {
	d.send(ctx, func(ctx context.Context) {
		defer d.marks.abandon(deliveryID(c))
		mine, err := d.store.LeaseDelivery(ctx, c, deliveryLease)
		if err != nil || !mine {
			return
		}
		traceparent, at := d.carryOn(ctx, c)
		err = d.deliver(ctx, c.Tenant, sink.Delivery{ID: webhookID(c), URL: c.Sink.URL, Body: continuationReady(c), Traceparent: traceparent})
		at.End(err)
		d.account(ctx, "continuation", viaWebhook, 1, b2i(err == nil), err)
		if err == nil {
			d.marks.delivered(c)
			return
		}
		if err := d.deliveryFailed(ctx, c, err); err != nil {
			d.log.WarnContext(ctx, "a failed delivery could not be recorded, its lease will run out", "turn", c.Turn, "err", err)
		}
	})
}

func (d *Dispatcher) deliveryFailed(ctx context.Context, c store.DueContinuation, why error) error {
	if err := failpoint.Hit(ctx, failpoint.SinkBeforeRecord); err != nil {
		return err
	}
	return d.store.DeliveryFailed(ctx, c, why.Error(), again(why, c.Deliveries))
}

// callByWebhook tells a caller by its webhook; one that does not answer is
// told again by the sweep.
func (d *Dispatcher) callByWebhook(ctx context.Context, r store.DueRun, body []byte) {
	d.send(ctx, func(ctx context.Context) {
		traceparent, at := d.dispatch(ctx, r)
		err := d.deliver(ctx, r.Tenant, sink.Delivery{ID: "call_" + runID(r), URL: r.Sink.URL, Body: body, Traceparent: traceparent})
		at.End(err)
		d.marks.hinted(r.Tenant, r.Call, r.Fence, int64(r.Published)) // told or not: the next try is the sweep's, not at once
		d.account(ctx, "call", viaWebhook, 1, b2i(err == nil), err)
	})
}

// How something is handed over.
const (
	viaJetStream = "jetstream"
	viaWebhook   = "webhook"
)

func (d *Dispatcher) deliver(ctx context.Context, tenant model.TenantID, delivery sink.Delivery) error {
	secrets, err := d.store.SigningSecrets(ctx, tenant)
	if err != nil {
		return err
	}
	delivery.Secrets = secrets
	if err := failpoint.Hit(ctx, failpoint.SinkBeforeSend); err != nil {
		return err
	}
	err = d.webhook.Send(ctx, delivery)
	if lost := failpoint.Hit(ctx, failpoint.SinkAfterSend); lost != nil {
		return lost
	}
	return err
}

// publish is deliver for sinks on JetStream: it gives what the stream has.
func (d *Dispatcher) publish(ctx context.Context, messages []bus.ContinuationMessage) ([]bus.ContinuationMessage, error) {
	if err := failpoint.Hit(ctx, failpoint.SinkBeforeSend); err != nil {
		return nil, err
	}
	acked, err := d.bus.PublishContinuations(ctx, messages)
	if lost := failpoint.Hit(ctx, failpoint.SinkAfterSend); lost != nil {
		return nil, lost
	}
	return acked, err
}

// again is when a failed delivery is tried again: as the receiver asked, or
// by the backoff.
func again(err error, deliveries int) time.Duration {
	if f, ok := errors.AsType[*sink.Failure](err); ok && f.RetryAfter > 0 {
		return min(f.RetryAfter, time.Hour)
	}
	return sink.Backoff(deliveries)
}

// send runs one webhook in the background on its own clock: a delivery that
// has begun is not broken off when the service stops. When too many are under
// way it leaves the row to the sweep.
func (d *Dispatcher) send(ctx context.Context, do func(context.Context)) {
	select {
	case d.flight <- struct{}{}:
	case <-ctx.Done():
		return
	}
	go func() {
		defer func() { <-d.flight }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryLease)
		defer cancel()
		do(ctx)
	}()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
