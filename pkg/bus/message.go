package bus

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a delivered message. It holds a slot until it is settled, once,
// by [Message.Ack], [Message.NakWithDelay] or [Message.Term]; settling frees
// the slot and returns at once, and the server is told in the background.
// Settling a second time does nothing.
//
// An acknowledgement is not a fence: a message that was delivered again
// meanwhile is acknowledged for its new holder too. Only rows tell who may go on.
type Message struct {
	// ID is the message id under which it was published, or empty.
	ID string
	// Traceparent is the W3C trace context it came with, or empty.
	Traceparent string
	// Deliveries is 1 at the first delivery.
	Deliveries int

	bus     *Bus
	kind    string
	raw     *nats.Msg
	slots   *Slots
	settled atomic.Bool
}

func newMessage(b *Bus, kind string, raw *nats.Msg, slots *Slots) *Message {
	m := &Message{
		ID:          raw.Header.Get(jetstream.MsgIDHeader),
		Traceparent: HeaderCarrier(raw.Header).Get(traceparentKey),
		Deliveries:  1,
		bus:         b, kind: kind, raw: raw, slots: slots,
	}
	var stored time.Time
	if meta, err := raw.Metadata(); err == nil {
		m.Deliveries, stored = int(meta.NumDelivered), meta.Timestamp
	}
	b.metrics.deliver(kind, m.Deliveries, stored)
	return m
}

// Ack says that the work is done, or that none is left. It is confirmed by
// the server; one that is not confirmed in time is counted, and the message
// comes again.
func (m *Message) Ack() { m.settle("+ACK") }

// NakWithDelay gives the message back, to be delivered to anybody after d.
func (m *Message) NakWithDelay(d time.Duration) {
	if d <= 0 {
		m.settle("-NAK")
		return
	}
	m.settle(fmt.Sprintf(`-NAK {"delay": %d}`, d.Nanoseconds()))
}

// Term says that the message makes no sense and must not come again.
func (m *Message) Term() {
	if m.settle("+TERM") {
		count(m.bus.metrics.garbage, 1, m.kind)
	}
}

// Settle does what [Disposition] says about err.
func (m *Message) Settle(err error) {
	switch action, delay := Disposition(err); action {
	case Ack:
		m.Ack()
	case Term:
		m.Term()
	default:
		m.NakWithDelay(delay)
	}
}

// Working keeps the message from being delivered again, until the returned
// function is called.
func (m *Message) Working() (done func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(m.bus.opts.timing.ackWait / 3)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				m.inProgress()
			}
		}
	}()
	return func() { close(ended) }
}

// inProgress puts redelivery off by another AckWait (30 s). Where that fails
// the message may come again, nothing worse.
func (m *Message) inProgress() {
	if !m.settled.Load() {
		_ = m.bus.nc.Publish(m.raw.Reply, []byte("+WPI"))
	}
}

func (m *Message) settle(verdict string) bool {
	if !m.settled.CompareAndSwap(false, true) {
		return false
	}
	m.slots.Release(1)
	m.bus.settle(m.kind, m.raw.Reply, verdict)
	return true
}
