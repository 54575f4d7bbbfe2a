package watch

import (
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/status"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

const (
	// loads is how many queries for topics run at once, whatever number of
	// readers asks: Redis being away must not become a storm on Postgres.
	loads = 2
	// loadTime bounds one of them.
	loadTime = 5 * time.Second
)

// loader reads topics from Postgres for many readers at once. Those who ask
// while the queries before are under way share the next one, and one who asks
// for a topic that is being read waits for the next reading: nobody gets
// something older than his question.
type loader struct {
	rows Rows

	mu      sync.Mutex
	pending map[store.TopicKey]*load
	running int
}

// load is one topic being read, for all who asked for it.
type load struct {
	done  chan struct{}
	found bool
	entry status.Entry
	err   error
}

func newLoader(rows Rows) *loader {
	return &loader{rows: rows, pending: map[store.TopicKey]*load{}}
}

// load reads topics of one tenant; one that does not exist is not in the map.
func (l *loader) load(ctx context.Context, keys []store.TopicKey) (map[model.TopicID]status.Entry, error) {
	out := make(map[model.TopicID]status.Entry, len(keys))
	for _, one := range l.ask(keys) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-one.done:
		}
		if one.err != nil {
			return nil, one.err
		}
		if one.found {
			out[one.entry.Topic] = one.entry
		}
	}
	return out, nil
}

func (l *loader) ask(keys []store.TopicKey) []*load {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := make([]*load, len(keys))
	for i, key := range keys {
		one := l.pending[key]
		if one == nil {
			one = &load{done: make(chan struct{})}
			l.pending[key] = one
		}
		asked[i] = one
	}
	if len(l.pending) > 0 && l.running < loads {
		l.running++
		go l.run()
	}
	return asked
}

// run reads what is asked for until nothing is.
func (l *loader) run() {
	for keys, asked := l.take(); len(keys) > 0; keys, asked = l.take() {
		ctx, cancel := context.WithTimeout(context.Background(), loadTime)
		entries, err := l.read(ctx, keys)
		cancel()
		for _, e := range entries {
			one := asked[store.TopicKey{Tenant: e.Tenant, Topic: e.Topic}]
			one.entry, one.found = e, true
		}
		for _, one := range asked {
			one.err = err
			close(one.done)
		}
	}
}

func (l *loader) take() (keys []store.TopicKey, asked map[store.TopicKey]*load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked = map[store.TopicKey]*load{}
	for key, one := range l.pending {
		if len(keys) == batch {
			break
		}
		keys, asked[key] = append(keys, key), one
		delete(l.pending, key)
	}
	if len(keys) == 0 {
		l.running--
	}
	return keys, asked
}

// read is one query, and its rows as entries.
func (l *loader) read(ctx context.Context, keys []store.TopicKey) ([]status.Entry, error) {
	readAt := time.Now()
	views, err := l.rows.TopicViews(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]status.Entry, 0, len(views))
	for _, v := range views {
		if v.Version > 0 { // 0: the topic's first commit is under way
			entries = append(entries, status.Entry{Tenant: v.Tenant, Topic: v.ID, Version: v.Version, Body: view.Topic(v), ReadAt: readAt, Epoch: v.Epoch})
		}
	}
	return entries, nil
}
