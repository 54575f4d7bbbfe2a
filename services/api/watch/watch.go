package watch

import (
	"context"
	"fmt"
	"sync"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Watch wakes its one user when a topic may have changed. It is not safe for
// concurrent use.
type Watch struct {
	hub     *Hub
	key     store.TopicKey
	topic   *topic
	changed <-chan struct{}
	seen    int64
	close   func()
}

// Watch begins to watch a topic, which need not exist: whatever is committed
// from now on wakes it. So watch first, and read after. A key without a topic
// watches all topics of the tenant, by signals alone, so its user also looks
// from time to time. The watch must be closed.
func (h *Hub) Watch(key store.TopicKey) *Watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[key]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		h.topics[key] = t
	}
	t.watches++
	w := &Watch{hub: h, key: key, topic: t, changed: t.changed}
	w.close = sync.OnceFunc(w.leave)
	return w
}

// Close ends the watch. A second call does nothing.
func (w *Watch) Close() { w.close() }

func (w *Watch) leave() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.topic.watches--; w.topic.watches == 0 {
		delete(w.hub.topics, w.key)
	}
}

// Saw tells which version the user has read from the rows, so that it is not
// woken for what it knows. Others who were not told of it are woken.
func (w *Watch) Saw(version int64) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.seen = version
	if version <= w.topic.heard {
		return
	}
	woken := w.changed == w.topic.changed
	w.topic.heard = version
	if w.topic.wake(); woken {
		w.changed = w.topic.changed
	}
}

// Changed is closed when there may be something to read. After it was, the
// user calls [Watch.Again] before reading.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Again makes the watch ready for the next change, and tells whether the one
// that woke it is worth reading. It is not when the user saw it already.
func (w *Watch) Again() bool {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.changed = w.topic.changed
	// Lower than what was seen it is only after the database itself went back.
	return w.topic.heard != w.seen
}

// Next waits until there may be something to read: a change that the user did
// not see, or the end of ctx, which is the error.
func (w *Watch) Next(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.hub.closing:
			return errClosing
		case <-w.changed:
			if w.Again() {
				return nil
			}
		}
	}
}

// Wait returns when the topic's committed version is higher than after. The
// error is ctx's, or that the rows cannot be read. A topic that does not
// exist is waited for.
func (h *Hub) Wait(ctx context.Context, key store.TopicKey, after int64) error {
	w := h.Watch(key)
	defer w.Close()
	for {
		versions, err := h.rows.Versions(ctx, []store.TopicKey{key})
		if err != nil {
			return err
		}
		version := versions[key]
		if version > after {
			return nil
		}
		w.Saw(version)
		if err := w.Next(ctx); err != nil {
			return err
		}
	}
}

// errClosing is that the node stops. The caller asks another one.
var errClosing = fmt.Errorf("this node is stopping; ask again: %w", model.ErrUnavailable)
