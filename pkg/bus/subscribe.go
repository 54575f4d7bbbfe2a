package bus

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// SignalSubscription is what [Bus.SubscribeSignals] needs.
type SignalSubscription struct {
	// Queue names a group of which one member gets each signal (continuer).
	// Empty: this subscription gets them all (api nodes).
	Queue string
	// Handle gets each signal, one after the other. It must return at once,
	// as [Dirty.Mark] does: while it runs, signals pile up, and beyond a
	// bound they are dropped.
	Handle func(Signal)
	// Resync is called, one call at a time, whenever signals may have been
	// missed: the server was away, or signals were dropped. Whoever follows
	// topics reads them all again.
	Resync func()
}

type subscription struct {
	bus     *Bus
	sub     *nats.Subscription
	config  SignalSubscription
	missed  chan struct{}
	ended   chan struct{}
	dropped int
}

// SubscribeSignals subscribes to the signals of all topics. When it returns
// and the server can be reached, the subscription stands: what is committed
// from then on is signalled to it, so subscribe first and read after. When
// the server is away, it begins with a Resync. The returned function ends the
// subscription; no call is made after it returned, except one that was
// running.
func (b *Bus) SubscribeSignals(config SignalSubscription) (cancel func(), err error) {
	s := &subscription{bus: b, config: config, missed: make(chan struct{}, 1), ended: make(chan struct{})}
	s.sub, err = b.nc.QueueSubscribe(signalPrefix+"*.*", config.Queue, s.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to signals: %w", err)
	}
	if err := s.sub.SetPendingLimits(b.opts.timing.pendingLimit, -1); err != nil {
		return nil, fmt.Errorf("subscribe to signals: %w", err)
	}
	forget := b.OnReconnect(func() { wake(s.missed) })
	if !b.Connected() || b.nc.FlushTimeout(b.opts.timing.api) != nil {
		wake(s.missed)
	}
	go s.watch()
	return sync.OnceFunc(func() {
		forget()
		_ = s.sub.Unsubscribe() // it fails only when the connection is closed, which ends it too
		close(s.ended)
	}), nil
}

func (s *subscription) receive(msg *nats.Msg) {
	signal, err := decodeSignal(msg)
	if err != nil {
		count(s.bus.metrics.garbage, 1, "signal")
		return
	}
	s.bus.metrics.deliver("signal", 1, time.Time{})
	s.config.Handle(signal)
}

// watch calls Resync when signals may have been missed. The client's counter
// of dropped messages is polled rather than its one-time notice heard: the
// notice comes with the first drop, and a resync then would miss the rest.
func (s *subscription) watch() {
	tick := time.NewTicker(s.bus.opts.timing.dropCheck)
	defer tick.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-s.missed:
			// Once the server answers, it has the subscription: what is
			// committed after the resync's read is signalled.
			if s.bus.nc.FlushTimeout(s.bus.opts.timing.api) != nil {
				continue // gone again; its return wakes us again
			}
		case <-tick.C:
			dropped, err := s.sub.Dropped()
			if err != nil || dropped == s.dropped {
				continue
			}
			s.dropped = dropped
		}
		count(s.bus.metrics.resyncs, 1, "signal")
		s.config.Resync()
	}
}
