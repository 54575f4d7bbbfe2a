package watch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uimessage"
)

// Signals is what a hub hears; *bus.Bus is one.
type Signals interface {
	SubscribeSignals(bus.SignalSubscription) (cancel func(), err error)
}

// Rows is what a hub reads; *store.Store is one.
type Rows interface {
	Versions(ctx context.Context, keys []store.TopicKey) (map[store.TopicKey]int64, error)
	TopicViews(ctx context.Context, keys []store.TopicKey) ([]store.TopicView, error)
	OwedSignals(ctx context.Context, since time.Duration, limit int) ([]store.Change, error)
	RecentChanges(ctx context.Context, within time.Duration, limit int) ([]store.Change, error)
	Messages(ctx context.Context, tenant model.TenantID, topic model.TopicID, r store.Range) (store.History, error)
}

// Options are what a hub may be told; zero values mean the defaults.
type Options struct {
	Log *slog.Logger
	// Sweep is how often the versions of all watched topics are compared
	// with what was heard, and how often an open stream's right to exist is
	// checked: the longest time a lost signal can cost. 2 s.
	Sweep time.Duration
	// Comment is how often a silent stream shows that it lives. 15 s.
	Comment time.Duration
	// WriteTimeout is how long a client may take to receive one event; a
	// slower one is dropped and catches up when it reconnects. 10 s.
	WriteTimeout time.Duration
	// Sign signs the questions in messages; nil signs none.
	Sign uimessage.Sign
	// StreamsPerKey bounds the open streams of one API key on this node. 100.
	StreamsPerKey int
}

// Hub knows who watches which topic on this node. It is safe for concurrent
// use.
type Hub struct {
	signals Signals
	rows    Rows
	opts    Options
	log     *slog.Logger

	mu      sync.Mutex
	topics  map[store.TopicKey]*topic
	streams map[string]int // open streams by key

	sweepNow chan struct{}
	closing  chan struct{} // closed when Run ends: every stream ends
}

// topic is a topic that somebody watches.
type topic struct {
	watches int
	heard   int64         // the highest version that was heard of, true or not
	changed chan struct{} // closed, and replaced, at every change
}

// New makes a hub. It does nothing before [Hub.Run].
func New(signals Signals, rows Rows, o Options) *Hub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Sweep = orDefault(o.Sweep, 2*time.Second)
	o.Comment = orDefault(o.Comment, 15*time.Second)
	o.WriteTimeout = orDefault(o.WriteTimeout, 10*time.Second)
	o.StreamsPerKey = orDefault(o.StreamsPerKey, 100)
	return &Hub{
		signals: signals, rows: rows, opts: o, log: o.Log.With("component", "watch"),
		topics: map[store.TopicKey]*topic{}, streams: map[string]int{},
		sweepNow: make(chan struct{}, 1), closing: make(chan struct{}),
	}
}

func orDefault[T time.Duration | int](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}

// Run hears signals and sweeps until ctx ends; then all streams end. It is
// called once.
func (h *Hub) Run(ctx context.Context) error {
	defer close(h.closing)
	cancel, err := h.signals.SubscribeSignals(bus.SignalSubscription{Handle: h.hear, Resync: h.resync})
	if err != nil {
		return fmt.Errorf("watch topics: %w", err)
	}
	defer cancel()
	tick := time.NewTicker(h.opts.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.sweepNow:
		}
		h.sweep(ctx)
	}
}

// resync is called when signals may have been missed.
func (h *Hub) resync() {
	select {
	case h.sweepNow <- struct{}{}:
	default:
	}
}

// Moved is called after a failover of the database, which may have taken rows
// back: what was heard before says nothing, and every stream reads again.
func (h *Hub) Moved() {
	h.mu.Lock()
	for key, t := range h.topics {
		if t.heard++; key.Topic != "" {
			t.heard = unheard
		}
		t.wake()
	}
	h.mu.Unlock()
	h.resync()
}

// unheard is below every version.
const unheard = -1

// hear takes one signal. A version that was heard already is nothing new; a
// lower one may be the truth, when the higher one was forged.
func (h *Hub) hear(s bus.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[store.TopicKey{Tenant: s.Tenant, Topic: s.Topic}]; t != nil && s.Version != t.heard {
		t.heard = max(t.heard, s.Version)
		t.wake()
	}
	if t := h.topics[store.TopicKey{Tenant: s.Tenant}]; t != nil {
		t.heard++
		t.wake()
	}
}

func (t *topic) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}
