package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/pkg/model"
)

// ContinuationMessage is what a JetStream sink receives: a continuation, or
// the news that a call of a caller is ready. Its body is made by the caller
// and holds ids only, at most 63 KiB.
type ContinuationMessage struct {
	Tenant model.TenantID
	Sink   string
	// ID is the message's id within the duplicate window of an hour. It must
	// name the delivery, not only the continuation: a second delivery that is
	// meant carries another id, or it would be swallowed.
	ID   string
	Body []byte
	// Traceparent is the W3C trace context, or empty. It travels as a header.
	Traceparent string
}

// PublishContinuations publishes messages, all at once, and returns those that the
// stream acknowledged, in the order given; see [Bus.PublishRuns].
func (b *Bus) PublishContinuations(ctx context.Context, messages []ContinuationMessage) (acked []ContinuationMessage, err error) {
	msgs := make([]*nats.Msg, len(messages))
	for i, m := range messages {
		msgs[i] = newMsg(ContinuationSubject(m.Tenant, m.Sink), m.ID, m.Traceparent, m.Body)
	}
	oks, err := b.publishBatch(ctx, "continuation", msgs)
	for i, ok := range oks {
		if ok {
			acked = append(acked, messages[i])
		}
	}
	return acked, err
}

// ContinuationDelivery is a message that was delivered to a backend.
type ContinuationDelivery struct {
	*Message
	Body []byte
}

// ConsumeContinuationsOptions is what [Bus.ConsumeContinuations] needs.
type ConsumeContinuationsOptions struct {
	Tenant model.TenantID
	Sink   string
	// Durable names the consumer within this sink; backend nodes with the
	// same name share the messages.
	Durable string
	// Slots is how many messages may be unsettled at once.
	Slots *Slots
}

// ConsumeContinuations is for backends written in Go: it hands the messages
// of one sink to handle until ctx ends; see [Bus.ConsumeRuns].
func (b *Bus) ConsumeContinuations(ctx context.Context, options ConsumeContinuationsOptions, handle func(ContinuationDelivery)) error {
	name, err := consumerName(options.Durable)
	if err != nil {
		return err
	}
	subject := ContinuationSubject(options.Tenant, options.Sink)
	digest := sha256.Sum256([]byte(subject)) // subjects may be longer than names of consumers
	name += "=" + hex.EncodeToString(digest[:8])
	p := &puller{
		bus: b, kind: "continuation", stream: ContinuationsStream,
		consumer: b.consumerConfig(name, subject), slots: options.Slots,
	}
	p.deliver = func(raw *nats.Msg) {
		handle(ContinuationDelivery{Message: newMessage(b, p.kind, raw, p.slots), Body: raw.Data})
	}
	return p.run(ctx)
}
