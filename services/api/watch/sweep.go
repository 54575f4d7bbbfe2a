package watch

import (
	"context"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// sweepTime bounds one sweep's query.
const sweepTime = 10 * time.Second

// sweep compares what was heard of every watched topic with its row.
func (h *Hub) sweep(ctx context.Context) {
	before := h.heard()
	if len(before) == 0 {
		return
	}
	keys := make([]store.TopicKey, 0, len(before))
	for key := range before {
		keys = append(keys, key)
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	versions, err := h.rows.Versions(ctx, keys)
	if err != nil {
		if ctx.Err() == nil {
			h.log.Warn("cannot look for missed changes, trying again", "error", err)
		}
		return
	}
	h.correct(before, versions)
}

// heard is the highest version heard of, per watched topic.
func (h *Hub) heard() map[store.TopicKey]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[store.TopicKey]int64, len(h.topics))
	for key, t := range h.topics {
		if key.Topic != "" {
			out[key] = t.heard
		}
	}
	return out
}

// correct wakes those who were told too little. A version that was heard
// before the rows were read and is ahead of them was never committed: signals
// are sent after the commit. It is taken back, so that it hides nothing.
func (h *Hub) correct(before, versions map[store.TopicKey]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, version := range versions {
		t := h.topics[key]
		if t == nil {
			continue
		}
		if version > t.heard || t.heard == before[key] && version != t.heard {
			t.heard = version
			t.wake()
		}
	}
}
