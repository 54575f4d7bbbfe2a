package main

import (
	"context"

	"github.com/countersign/countersign/pkg/client"
)

// followed bounds the open streams of one watch; topics beyond it are seen by
// looking.
const followed = 32

// streams are the event streams of a watch. They carry no news themselves:
// changed says only that it is time to look.
type streams struct {
	client  *client.Client
	changed chan struct{}
	cancel  map[string]context.CancelFunc
}

func newStreams(c *client.Client) *streams {
	return &streams{client: c, changed: make(chan struct{}, 1), cancel: map[string]context.CancelFunc{}}
}

func (s *streams) follow(ctx context.Context, topic client.Topic) {
	if s.cancel[topic.ID] != nil || len(s.cancel) >= followed {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.cancel[topic.ID] = cancel
	go func() {
		for _, err := range s.client.Events(ctx, topic.ID, topic.Version) {
			if err != nil {
				return
			}
			select {
			case s.changed <- struct{}{}:
			default: // a look is due already
			}
		}
	}()
}

func (s *streams) leave(topic string) {
	if cancel := s.cancel[topic]; cancel != nil {
		cancel()
		delete(s.cancel, topic)
	}
}

func (s *streams) stop() {
	for topic := range s.cancel {
		s.leave(topic)
	}
}
