package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/status"
	"github.com/countersign/countersign/pkg/store"
)

const (
	// projectors is the queue group of which one member projects each signal.
	projectors = "projection"
	// batch bounds the topics of one query and one trip to Redis.
	batch = 500
	// retryAfter is when what could not be projected is tried again.
	retryAfter = time.Second
	// owedFor: a topic whose change no continuer has heard of for so long is
	// projected by looking. With NATS there is none, without it all are.
	owedFor = time.Second
	// lookLimit bounds the topics that one look finds.
	lookLimit = 5000
	// missedWithin is longer than an entry lives: what changed before is not
	// in Redis any more.
	missedWithin = 90 * time.Second
	// maxOwed bounds what waits for a Redis that is away; entries beyond it
	// expire by themselves within a minute.
	maxOwed = 100_000
)

// Cache is where topics are projected to; *status.Cache is one.
type Cache interface {
	Get(ctx context.Context, tenant model.TenantID, topics []model.TopicID) (map[model.TopicID]status.Entry, error)
	Put(ctx context.Context, entries []status.Entry) error
}

// Projection keeps topics in Redis as their rows are, and reads them from
// there. It is safe for concurrent use.
type Projection struct {
	signals Signals
	cache   Cache
	loader  *loader
	log     *slog.Logger
	dirty   *bus.Dirty
	sweep   time.Duration
	rows    Rows

	missed chan struct{}
	owed   map[store.TopicKey]int64 // as they were projected though nobody signalled them
}

// NewProjection makes a projection that looks for what was not signalled every
// sweep; 0 means two seconds. Reading needs no [Projection.Run].
func NewProjection(signals Signals, rows Rows, cache Cache, log *slog.Logger, sweep time.Duration) *Projection {
	return &Projection{
		signals: signals, cache: cache, loader: newLoader(rows), log: log.With("component", "projection"), dirty: bus.NewDirty(),
		sweep: orDefault(sweep, 2*time.Second), rows: rows, missed: make(chan struct{}, 1), owed: map[store.TopicKey]int64{},
	}
}

// Run projects what is signalled until ctx ends. Any number of nodes may run
// it: each signal goes to one of them. What was not signalled is found by
// looking, a sweep later; a signal that died with its node leaves an old entry
// for at most the minute that it lives.
func (p *Projection) Run(ctx context.Context) error {
	cancel, err := p.signals.SubscribeSignals(bus.SignalSubscription{
		Queue:  projectors,
		Handle: p.dirty.Mark,
		Resync: func() {
			select {
			case p.missed <- struct{}{}:
			default: // a look is due already
			}
		},
	})
	if err != nil {
		return fmt.Errorf("project topics: %w", err)
	}
	defer cancel()
	tick := time.NewTicker(p.sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.dirty.Wakeup():
		case <-tick.C:
			p.lookForOwed(ctx)
		case <-p.missed:
			p.lookForMissed(ctx)
		}
		if !p.project(ctx) && !rest(ctx, retryAfter) {
			return nil
		}
	}
}

// lookForOwed marks what changed and was not signalled: with NATS away this is
// what projects. A version is marked once.
func (p *Projection) lookForOwed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	changes, err := p.rows.OwedSignals(ctx, owedFor, lookLimit)
	if err != nil {
		return // the next look finds it, and the entries expire
	}
	owed := make(map[store.TopicKey]int64, len(changes))
	for _, c := range changes {
		key := store.TopicKey{Tenant: c.Tenant, Topic: c.Topic}
		if owed[key] = c.Version; p.owed[key] != c.Version {
			p.dirty.Mark(bus.Signal{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version})
		}
	}
	p.owed = owed
}

// lookForMissed marks what changed lately, after signals may have been missed.
func (p *Projection) lookForMissed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	changes, err := p.rows.RecentChanges(ctx, missedWithin, lookLimit)
	if err != nil {
		p.log.Warn("cannot look for missed changes, entries from before expire within a minute", "error", err)
	}
	for _, c := range changes {
		p.dirty.Mark(bus.Signal{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version})
	}
}

// project writes all dirty topics. What could not be written is dirty again,
// and the result is false.
func (p *Projection) project(ctx context.Context) bool {
	for {
		signals := p.dirty.Take()
		if len(signals) == 0 {
			return true
		}
		for len(signals) > 0 {
			n := min(batch, len(signals))
			if err := p.write(ctx, signals[:n]); err != nil && ctx.Err() == nil {
				p.owe(signals, err)
				return false
			}
			signals = signals[n:]
		}
	}
}

func (p *Projection) write(ctx context.Context, signals []bus.Signal) error {
	keys := make([]store.TopicKey, len(signals))
	for i, s := range signals {
		keys[i] = store.TopicKey{Tenant: s.Tenant, Topic: s.Topic}
	}
	entries, err := p.loader.read(ctx, keys)
	if err != nil {
		return err
	}
	if err := failpoint.Hit(ctx, failpoint.ProjectBeforePut); err != nil {
		return err
	}
	return p.cache.Put(ctx, entries)
}

// owe marks signals again, so that what Redis holds from before its outage is
// overwritten as soon as it is back.
func (p *Projection) owe(signals []bus.Signal, err error) {
	if !errors.Is(err, status.ErrDown) { // which the cache has logged, once
		p.log.Warn("cannot project topics, trying again", "topics", len(signals), "error", err)
	}
	for _, s := range signals {
		if p.dirty.Len() < maxOwed {
			p.dirty.Mark(s)
		}
	}
}

// rest pauses, and tells whether ctx still lasts.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Topics gives the bodies of topics as they were projected; one that does not
// exist is left out. What Redis does not know comes from Postgres and is put
// there. An answer may be as old as an entry lives, a minute; who must not get
// less than a version reads the row.
func (p *Projection) Topics(ctx context.Context, tenant model.TenantID, ids []model.TopicID) (map[model.TopicID]json.RawMessage, error) {
	known, err := p.cache.Get(ctx, tenant, ids)
	if err != nil {
		known = nil // the rows know
	}
	out := make(map[model.TopicID]json.RawMessage, len(ids))
	var missing []store.TopicKey
	for _, id := range ids {
		if e, ok := known[id]; ok {
			out[id] = e.Body
		} else {
			missing = append(missing, store.TopicKey{Tenant: tenant, Topic: id})
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	loaded, err := p.loader.load(ctx, missing)
	if err != nil {
		return nil, err
	}
	entries := make([]status.Entry, 0, len(loaded))
	for _, e := range loaded {
		out[e.Topic] = e.Body
		entries = append(entries, e)
	}
	_ = p.cache.Put(ctx, entries) // a projection that is not there costs the next reader a query
	return out, nil
}
