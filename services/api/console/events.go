package console

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/watch"
)

// events keeps a window as the rows are: the parts of the page that changed,
// drawn anew, each as an event with its element's name.
func (c *Console) events(w http.ResponseWriter, r *http.Request, p model.Principal) {
	s, _ := readSession(r)
	l := &live{Console: c, by: p, topic: model.TopicID(r.URL.Query().Get("id"))}
	// Watch first, read after.
	l.list = c.Hub.Watch(store.TopicKey{Tenant: p.Tenant})
	defer l.list.Close()
	if l.topic != "" {
		l.one = c.Hub.Watch(store.TopicKey{Tenant: p.Tenant, Topic: l.topic})
		defer l.one.Close()
	}
	stream, end, err := c.Hub.Open(w, string(p.Tenant)+"\x00"+p.Key)
	if errors.Is(err, watch.ErrTooManyStreams) {
		http.Error(w, err.Error(), http.StatusTooManyRequests)
		return
	}
	if err != nil {
		c.fail(w, err)
		return
	}
	defer end()
	authorize := c.authorize(s)
	for err = l.redraw(r.Context(), stream, watch.First); err == nil; {
		err = l.next(r.Context(), stream, authorize)
	}
}

// live is one window.
type live struct {
	*Console
	by    model.Principal
	topic model.TopicID
	list  *watch.Watch
	one   *watch.Watch // nil on the list alone
	drawn [2][]byte    // what the window has: the conversation, the list
	at    time.Time    // when the list was read
}

// listPause is the least time between two readings of the list: a busy
// tenant's signals come by the thousand. What they tell waits for the tick.
const listPause = 300 * time.Millisecond

func (l *live) next(ctx context.Context, s *watch.Stream, authorize func(context.Context) error) error {
	var one <-chan struct{}
	if l.one != nil {
		one = l.one.Changed()
	}
	why, err := s.Idle(ctx, authorize, one, l.list.Changed())
	if err != nil {
		return err
	}
	switch why {
	case watch.First:
		l.one.Again()
	case watch.Second:
		l.list.Again()
	}
	return l.redraw(ctx, s, why)
}

// redraw sends what has changed. A tick redraws the list alone: of topics in
// general nothing but signals tells, and those may be lost.
func (l *live) redraw(ctx context.Context, s *watch.Stream, why watch.Wakeup) error {
	changed := false
	if why == watch.First && l.one != nil {
		topic, err := l.conversation(ctx, l.by, l.topic)
		if err != nil && !errors.Is(err, model.ErrNotFound) {
			return err
		}
		if err == nil && l.send(s, 0, "conversation", topic) {
			changed = true
		}
	}
	if why != watch.Second || time.Since(l.at) > listPause {
		topics, err := l.topics(ctx, l.by, l.topic)
		if err != nil {
			return err
		}
		l.at = time.Now()
		changed = l.send(s, 1, "topics", topics) || changed
	}
	if !changed {
		return nil
	}
	return s.Flush()
}

// send adds an event with the part drawn anew, if it looks different.
func (l *live) send(s *watch.Stream, slot int, name string, data any) bool {
	html, err := fragment(name, data)
	if err != nil {
		l.log.Error("the page cannot be drawn", "error", err)
		return false
	}
	if bytes.Equal(html, l.drawn[slot]) {
		return false
	}
	l.drawn[slot] = html
	s.Event(name, 0, html)
	return true
}
