package bus

import (
	"context"
	"sync"
	"time"
)

// Slots counts what may be under way at once: a worker's capacity. Consuming
// takes one slot per delivered message and gives it back when the message is
// settled; whoever finds work elsewhere (queued rows) takes slots directly.
type Slots struct {
	size     int
	mu       sync.Mutex
	taken    int
	watchers map[chan struct{}]struct{}
}

// NewSlots makes size free slots.
func NewSlots(size int) *Slots {
	return &Slots{size: max(1, size), watchers: map[chan struct{}]struct{}{}}
}

// Size is how many slots there are, free or taken.
func (s *Slots) Size() int { return s.size }

// Free is how many slots are free now.
func (s *Slots) Free() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.taken
}

// TryAcquire takes up to n slots and tells how many it took; it never waits.
func (s *Slots) TryAcquire(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = max(0, min(n, s.size-s.taken))
	s.taken += n
	return n
}

// Release gives n slots back. Giving back more than was taken is a fault of
// the caller and panics, since capacity would be invented.
func (s *Slots) Release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.taken {
		panic("bus: more slots released than acquired")
	}
	s.taken -= n
	for watcher := range s.watchers {
		wake(watcher)
	}
}

// Fill looks for work beside what is consumed, every so often while slots are
// free, until ctx ends. find gives at most n pieces of work; each is begun as
// one of running, in a slot of its own.
func (s *Slots) Fill(ctx context.Context, every time.Duration, running *sync.WaitGroup, find func(n int) []func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := s.TryAcquire(s.size)
		if n == 0 {
			continue
		}
		found := find(n)
		s.Release(n - len(found))
		for _, work := range found {
			running.Go(func() {
				defer s.Release(1)
				work()
			})
		}
	}
}

// watch gives a channel that receives after slots were released.
func (s *Slots) watch() (released <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[c] = struct{}{}
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, c)
	}
}
