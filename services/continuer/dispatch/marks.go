package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// markEvery is how often marks are written. What a crash loses in between is
// dispatched once more, under the same message ids.
const markEvery = 500 * time.Millisecond

// marks collects what was dispatched until it is written down, and keeps
// that from being dispatched again meanwhile.
type marks struct {
	mu      sync.Mutex
	busy    map[string]bool // message ids under way, or acknowledged and not written down
	acked   map[string]bool
	pending store.Marks
	topics  map[store.TopicKey]int64
}

func newMarks() *marks {
	return &marks{busy: map[string]bool{}, acked: map[string]bool{}, topics: map[store.TopicKey]int64{}}
}

// begin tells whether a message is nobody's yet, and makes it this one's.
func (m *marks) begin(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[id] {
		return false
	}
	m.busy[id] = true
	return true
}

// abandon lets a message that was not acknowledged be tried again.
func (m *marks) abandon(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.acked[id] {
		delete(m.busy, id)
	}
}

func (m *marks) hinted(tenant model.TenantID, call model.CallID, fence, publish int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acked[hintID(call, fence, publish)] = true
	m.pending.Hinted = append(m.pending.Hinted, store.Hinted{Tenant: tenant, Call: call, Fence: fence})
}

func (m *marks) delivered(c store.DueContinuation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acked[deliveryID(c)] = true
	m.pending.Delivered = append(m.pending.Delivered,
		store.Delivered{Tenant: c.Tenant, Turn: c.Turn, Generation: c.Generation, Again: c.Sink.AcceptWithin})
}

func (m *marks) signalled(s bus.Signal) {
	key := store.TopicKey{Tenant: s.Tenant, Topic: s.Topic}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.topics[key] = max(m.topics[key], s.Version)
}

// run writes marks down until ctx ends, and once more after it.
func (m *marks) run(ctx context.Context, s Store, log *slog.Logger) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			m.write(last, s, log)
			return
		case <-tick.C:
			m.write(ctx, s, log)
		}
	}
}

func (m *marks) write(ctx context.Context, s Store, log *slog.Logger) {
	batch, ids := m.take()
	err := s.Mark(ctx, batch)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.busy, id)
		delete(m.acked, id)
	}
	if err != nil {
		// What was dispatched is found again by the sweep, which is what
		// happens to marks that are lost with a process too.
		log.WarnContext(ctx, "what was dispatched could not be marked", "err", err)
	}
}

// take gives what is to be written, and the ids that need not be kept after.
func (m *marks) take() (store.Marks, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := m.pending
	for key, version := range m.topics {
		batch.Signalled = append(batch.Signalled, store.Change{Tenant: key.Tenant, Topic: key.Topic, Version: version})
	}
	var ids []string
	for id := range m.acked {
		ids = append(ids, id)
	}
	m.pending, m.topics = store.Marks{}, map[store.TopicKey]int64{}
	return batch, ids
}

func hintID(call model.CallID, fence, publish int64) string {
	return fmt.Sprintf("%s:%d:%d", call, fence, publish)
}
