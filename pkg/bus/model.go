package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/pkg/model"
)

// ModelHint says that the model loop may have to go on from a turn. Whoever
// receives it accepts the turn's continuation, or drops the hint.
type ModelHint struct {
	Tenant model.TenantID `json:"tenant"`
	Turn   model.TurnID   `json:"turn"`
	// Generation is the continuation's when it was published, Delivery how
	// often it was; together with the turn they are the message's id.
	Generation int `json:"generation"`
	Delivery   int `json:"delivery"`
	// Traceparent is the W3C trace context, or empty. It travels as a header.
	Traceparent string `json:"-"`
}

func (h ModelHint) messageID() string {
	return string(h.Turn) + ":" + strconv.Itoa(h.Generation) + ":" + strconv.Itoa(h.Delivery)
}

// PublishModelHints publishes hints, all at once, and returns those that the
// stream acknowledged, in the order given; see [Bus.PublishRuns].
func (b *Bus) PublishModelHints(ctx context.Context, hints []ModelHint) (published []ModelHint, err error) {
	msgs := make([]*nats.Msg, len(hints))
	for i, hint := range hints {
		body, err := json.Marshal(hint)
		if err != nil {
			return nil, fmt.Errorf("encode the hint for turn %s: %w", hint.Turn, err)
		}
		msgs[i] = newMsg(ModelSubject(hint.Tenant), hint.messageID(), hint.Traceparent, body)
	}
	acked, err := b.publishBatch(ctx, "model", msgs)
	for i, ok := range acked {
		if ok {
			published = append(published, hints[i])
		}
	}
	return published, err
}

// ModelDelivery is a model hint that was delivered to this worker.
type ModelDelivery struct {
	*Message
	Hint ModelHint
}

// ConsumeModelHints hands model hints to handle until ctx ends; see
// [Bus.ConsumeRuns].
func (b *Bus) ConsumeModelHints(ctx context.Context, options ConsumeOptions, handle func(ModelDelivery)) error {
	name, err := consumerName(options.Durable)
	if err != nil {
		return err
	}
	p := &puller{bus: b, kind: "model", stream: ModelStream, consumer: b.consumerConfig(name, ""), slots: options.Slots}
	p.deliver = func(raw *nats.Msg) {
		m := newMessage(b, p.kind, raw, p.slots)
		hint, err := decodeModelHint(raw)
		if err != nil {
			m.Term()
			return
		}
		handle(ModelDelivery{Message: m, Hint: hint})
	}
	return p.run(ctx)
}

// decodeModelHint refuses what no service of ours would have sent.
func decodeModelHint(raw *nats.Msg) (ModelHint, error) {
	var hint ModelHint
	if err := json.Unmarshal(raw.Data, &hint); err != nil {
		return ModelHint{}, fmt.Errorf("decode a model hint: %w", err)
	}
	turn, err := model.ParseUUID[model.TurnID](string(hint.Turn))
	if err != nil || hint.Generation < 0 || hint.Delivery < 0 || ModelSubject(hint.Tenant) != raw.Subject {
		return ModelHint{}, fmt.Errorf("decode a model hint: its content does not belong on %s", raw.Subject)
	}
	hint.Turn = turn
	hint.Traceparent = HeaderCarrier(raw.Header).Get(traceparentKey)
	return hint, nil
}
