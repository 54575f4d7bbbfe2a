package bus

import (
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/failpoint"
)

// maxSettling bounds the acknowledgements in flight. A healthy server
// confirms within a millisecond; when so many wait, it does not answer, and
// the messages come again whether we say more or not.
const maxSettling = 4096

// settling counts the acknowledgements in flight.
type settling struct {
	mu    sync.Mutex
	count int
	idle  chan struct{} // closed when count falls to zero, if somebody waits
}

func (s *settling) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count >= maxSettling {
		return false
	}
	s.count++
	return true
}

func (s *settling) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

func (s *settling) wait(timeout time.Duration) {
	s.mu.Lock()
	if s.count == 0 {
		s.mu.Unlock()
		return
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(timeout):
	}
}

// settle tells the server what became of a message and waits for its
// confirmation in the background, each in a goroutine of its own: they share
// the connection's buffer, so many leave in one packet.
func (b *Bus) settle(kind, reply, verdict string) {
	if !b.Connected() || !b.settling.begin() {
		count(b.metrics.failures, 1, "settle "+kind)
		return
	}
	go func() {
		defer b.settling.end()
		err := failpoint.Hit(context.Background(), failpoint.AckBefore)
		if err == nil {
			_, err = b.nc.Request(reply, []byte(verdict), b.opts.timing.settle)
		}
		if err != nil {
			count(b.metrics.failures, 1, "settle "+kind)
			if streamMissing(err) {
				b.askRepair()
			}
			return
		}
		if verdict == "+ACK" {
			count(b.metrics.acked, 1, kind)
		}
	}()
}
