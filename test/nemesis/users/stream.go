package users

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

// Stream is an open window: it follows a topic by server-sent events.
type Stream struct {
	Tenant, Topic string
	stop          func()

	mu     sync.Mutex
	last   client.Topic
	events int
	back   string // how its version went back, or ""
}

// mostStreams bounds the windows that are open at once; the oldest closes
// first.
const mostStreams = 24

// watch opens a window on a topic, on one of the nodes.
func (w *World) watch(ctx context.Context, t tenant, topic string, r *rand.Rand) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	s := &Stream{Tenant: t.name, Topic: topic, stop: func() { cancel(); <-done }}
	node, after := r.IntN(2), int64(0)
	if r.IntN(2) == 0 {
		after = client.FromNow
	}
	go func() {
		defer close(done)
		// A topic that nobody has written to is not there yet.
		for ctx.Err() == nil {
			for event, err := range w.client(t, node, "").Events(ctx, topic, max(s.version(), after)) {
				if err != nil {
					break
				}
				s.take(event)
			}
			pause(ctx, 200*time.Millisecond)
		}
	}()
	w.mu.Lock()
	w.watched = append(w.watched, s)
	var old *Stream
	if len(w.watched) > mostStreams {
		old, w.watched = w.watched[0], w.watched[1:]
	}
	w.mu.Unlock()
	if old != nil {
		w.shut(old)
	}
}

// shut closes a window. What it saw is kept if it was wrong.
func (w *World) shut(s *Stream) {
	s.stop()
	if _, _, back := s.Last(); back != "" {
		w.mu.Lock()
		w.watched = append(w.watched, s)
		w.mu.Unlock()
	}
}

func (s *Stream) version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == 0 {
		return -1
	}
	return s.last.Version
}

func (s *Stream) take(event client.Event) {
	if event.Status == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events > 0 && event.Version < s.last.Version && s.back == "" {
		s.back = fmt.Sprintf("after version %d (%s) it told version %d (%s)", s.last.Version, s.last.Status, event.Version, event.Status.Status)
	}
	s.last = *event.Status
	s.events++
}

// Last is what the window shows, how many events made it so, and how its
// version went back, if it did.
func (s *Stream) Last() (last client.Topic, events int, back string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.events, s.back
}

// Streams are the windows that are open.
func (w *World) Streams() []*Stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*Stream(nil), w.watched...)
}
