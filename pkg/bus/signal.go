package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
)

// Signal says that a topic has changed and now has at least this version: the
// invalidation. It is a hint, at most once; receivers ignore versions that
// they know, read the rows, and also sweep.
type Signal struct {
	Tenant  model.TenantID `json:"tenant"`
	Topic   model.TopicID  `json:"topic"`
	Version int64          `json:"version"`
	// Traceparent is the W3C trace context of the commit, or empty. It
	// travels as a header.
	Traceparent string `json:"-"`
}

// maxOutbox bounds the topics that wait to be signalled while the server
// stopped reading; beyond it the sweep signals.
const maxOutbox = 65_536

// PublishSignals hands signals over to be published and returns at once, even
// when the server does not answer. Several about one topic that wait together
// go out as one. The error says that none or not all will go out
// ([ErrDisconnected], or too many waiting); the caller need not act on it,
// since a sweep signals whatever is owed. Signals without a Traceparent get
// that of ctx, which is used for nothing else.
func (b *Bus) PublishSignals(ctx context.Context, signals []Signal) error {
	if !b.Connected() {
		count(b.metrics.failures, len(signals), "publish signal")
		return fmt.Errorf("publish signals: %w", ErrDisconnected)
	}
	traceparent := traceparentOf(ctx)
	for i, signal := range signals {
		if b.outbox.Len() >= maxOutbox {
			count(b.metrics.failures, len(signals)-i, "publish signal")
			return fmt.Errorf("publish signals: %d topics wait already and NATS does not take them", maxOutbox)
		}
		if signal.Traceparent == "" {
			signal.Traceparent = traceparent
		}
		b.outbox.Mark(signal)
	}
	return nil
}

// publishSignals is the goroutine behind [Bus.PublishSignals]; what still
// waits when the bus closes goes out first.
func (b *Bus) publishSignals() {
	for {
		select {
		case <-b.outbox.Wakeup():
			b.flushSignals()
		case <-b.done:
			b.flushSignals()
			return
		}
	}
}

// flushSignals gives up at the first error: against a server that stopped
// reading each further try would wait as long again.
func (b *Bus) flushSignals() {
	signals := b.outbox.Take()
	sent := 0
	for _, signal := range signals {
		if b.publishSignal(signal) != nil {
			break
		}
		sent++
	}
	count(b.metrics.published, sent, "signal")
	count(b.metrics.failures, len(signals)-sent, "publish signal")
}

func (b *Bus) publishSignal(signal Signal) error {
	body, err := json.Marshal(signal)
	if err != nil {
		return err
	}
	if err := failpoint.Hit(context.Background(), failpoint.AnnounceBefore); err != nil {
		return err
	}
	return b.nc.PublishMsg(newMsg(SignalSubject(signal.Tenant, signal.Topic), "", signal.Traceparent, body))
}

// decodeSignal refuses what no service of ours would have sent.
func decodeSignal(msg *nats.Msg) (Signal, error) {
	var signal Signal
	if err := json.Unmarshal(msg.Data, &signal); err != nil {
		return Signal{}, fmt.Errorf("decode a signal: %w", err)
	}
	if signal.Version < 1 || SignalSubject(signal.Tenant, signal.Topic) != msg.Subject {
		return Signal{}, fmt.Errorf("decode a signal: its content does not belong on %s", msg.Subject)
	}
	signal.Traceparent = HeaderCarrier(msg.Header).Get(traceparentKey)
	return signal, nil
}
