package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/model"
)

// RunHint says that a call may be queued. Whoever receives it loads the row,
// and claims it or drops the hint.
type RunHint struct {
	Tenant model.TenantID `json:"tenant"`
	Call   model.CallID   `json:"call"`
	// Fence is the row's fence when it was published, Publish how often this
	// attempt was; together with the call they are the message's id, so a
	// sweep's intended repetition is never taken for a duplicate.
	Fence   int64 `json:"fence"`
	Publish int64 `json:"publish"`
	// Traceparent is the W3C trace context, or empty. It travels as a header.
	Traceparent string `json:"-"`
}

func (h RunHint) messageID() string {
	return string(h.Call) + ":" + strconv.FormatInt(h.Fence, 10) + ":" + strconv.FormatInt(h.Publish, 10)
}

// PublishRuns publishes hints, all at once, and returns those that the stream
// acknowledged, in the order given; a duplicate counts as acknowledged. The
// rest is not known to be published or not: mark only what was returned, and
// the sweep repeats the others. The wait is bounded by ctx, and by 5 s.
func (b *Bus) PublishRuns(ctx context.Context, hints []RunHint) (published []RunHint, err error) {
	msgs := make([]*nats.Msg, len(hints))
	for i, hint := range hints {
		body, err := json.Marshal(hint)
		if err != nil {
			return nil, fmt.Errorf("encode the hint for call %s: %w", hint.Call, err)
		}
		msgs[i] = newMsg(RunSubject(hint.Tenant), hint.messageID(), hint.Traceparent, body)
	}
	acked, err := b.publishBatch(ctx, "run", msgs)
	for i, ok := range acked {
		if ok {
			published = append(published, hints[i])
		}
	}
	return published, err
}

// Delivery is a run hint that was delivered to this worker.
type Delivery struct {
	*Message
	Hint RunHint
}

// ConsumeOptions is what [Bus.ConsumeRuns] needs.
type ConsumeOptions struct {
	// Durable names the consumer; workers with the same name share the work.
	// It is encoded like a subject token.
	Durable string
	// Slots is how much this worker can do at once.
	Slots *Slots
}

// ConsumeRuns hands run hints to handle until ctx ends, then returns nil. It
// asks the server for as many as there are free slots, so every delivery can
// be started at once; the delivery holds its slot until it is settled.
// handle must return at once (start a goroutine, or hand on to a batcher).
//
// Stream, consumer and server may vanish at any moment: they are made again,
// or waited for. Hints that were lost with them are published again from the
// rows. What makes no sense is terminated and counted, and never gets here.
// The only error is an unusable option.
func (b *Bus) ConsumeRuns(ctx context.Context, options ConsumeOptions, handle func(Delivery)) error {
	name, err := consumerName(options.Durable)
	if err != nil {
		return err
	}
	p := &puller{bus: b, kind: "run", stream: RunsStream, consumer: b.consumerConfig(name, ""), slots: options.Slots}
	p.deliver = func(raw *nats.Msg) {
		m := newMessage(b, p.kind, raw, p.slots)
		hint, err := decodeRunHint(raw)
		if err != nil {
			m.Term()
			return
		}
		handle(Delivery{Message: m, Hint: hint})
	}
	return p.run(ctx)
}

// decodeRunHint refuses what no service of ours would have sent.
func decodeRunHint(raw *nats.Msg) (RunHint, error) {
	var hint RunHint
	if err := json.Unmarshal(raw.Data, &hint); err != nil {
		return RunHint{}, fmt.Errorf("decode a run hint: %w", err)
	}
	call, err := model.ParseUUID[model.CallID](string(hint.Call))
	if err != nil || hint.Fence < 0 || hint.Publish < 0 || RunSubject(hint.Tenant) != raw.Subject {
		return RunHint{}, fmt.Errorf("decode a run hint: its content does not belong on %s", raw.Subject)
	}
	hint.Call = call
	hint.Traceparent = HeaderCarrier(raw.Header).Get(traceparentKey)
	return hint, nil
}

// consumerConfig is what every consumer of ours must be. Redelivery has no
// bound: rows count attempts, and a bound here would strand a call without
// a word. Neither have the messages waiting for acknowledgement: slots bound them.
func (b *Bus) consumerConfig(name, filter string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       name,
		FilterSubject: filter,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       b.opts.timing.ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    4096, // pull requests of all workers together
	}
}

// consumerName makes a name that NATS accepts, of at most 200 bytes.
func consumerName(durable string) (string, error) {
	name := EncodeToken(durable)
	if durable == "" || len(name) > 200 {
		return "", fmt.Errorf("consumer name %q must have between 1 and 200 bytes once encoded", durable)
	}
	return name, nil
}
