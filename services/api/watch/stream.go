package watch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
)

// ErrTooManyStreams is that a key, or a person, has as many open streams on
// this node as one may.
var ErrTooManyStreams = errors.New("you have too many open streams here; close some, or ask another node")

// Stream writes server-sent events to one client. Each event must be taken
// within the hub's write timeout, else the stream ends: a client that is too
// slow holds nothing of ours and catches up when it reconnects.
type Stream struct {
	hub     *Hub
	out     http.ResponseWriter
	rc      *http.ResponseController
	buf     bytes.Buffer
	check   *time.Ticker
	comment *time.Ticker
}

// Open counts a stream against key and begins the response. The returned
// function ends the stream. Errors: [ErrTooManyStreams]; nothing is written
// then.
func (h *Hub) Open(out http.ResponseWriter, key string) (*Stream, func(), error) {
	leave, err := h.Admit(key)
	if err != nil {
		return nil, nil, err
	}
	s := &Stream{
		hub: h, out: out, rc: http.NewResponseController(out),
		check: time.NewTicker(h.opts.Sweep), comment: time.NewTicker(h.opts.Comment),
	}
	header := out.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies must not collect events
	// The server's timeouts are for requests; a stream lasts.
	_ = s.rc.SetReadDeadline(time.Time{})
	_ = s.rc.SetWriteDeadline(time.Time{})
	out.WriteHeader(http.StatusOK)
	return s, func() {
		s.check.Stop()
		s.comment.Stop()
		leave()
	}, nil
}

// Admit counts an open stream of any kind against a key, or a person, until
// the returned function is called. Errors: [ErrTooManyStreams].
func (h *Hub) Admit(key string) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[key] >= h.opts.StreamsPerKey {
		return nil, ErrTooManyStreams
	}
	h.streams[key]++
	return func() { h.leave(key) }, nil
}

func (h *Hub) leave(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[key]--; h.streams[key] == 0 {
		delete(h.streams, key)
	}
}

// Event adds an event that [Stream.Flush] sends. id 0 is none. A line break
// of any kind in data, which JSON has between tokens only, arrives as a line
// feed.
func (s *Stream) Event(name string, id int64, data []byte) {
	s.buf.WriteString("event: " + name + "\n")
	if id > 0 {
		s.buf.WriteString("id: " + strconv.FormatInt(id, 10) + "\n")
	}
	for line := range bytes.Lines(bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))) {
		s.buf.WriteString("data: ")
		s.buf.Write(bytes.TrimSuffix(line, []byte("\n")))
		s.buf.WriteByte('\n')
	}
	s.buf.WriteByte('\n')
}

// Flush sends what was added, or a comment when nothing was.
func (s *Stream) Flush() error {
	if s.buf.Len() == 0 {
		s.buf.WriteString(":\n\n")
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.hub.opts.WriteTimeout)); err != nil {
		return err
	}
	if _, err := s.out.Write(s.buf.Bytes()); err != nil {
		return err
	}
	s.buf.Reset()
	s.comment.Reset(s.hub.opts.Comment)
	return s.rc.Flush()
}

// Wakeup says why [Stream.Idle] returned.
type Wakeup int

// The reasons: one of the two watches was woken, or a sweep's time has passed.
const (
	First Wakeup = iota
	Second
	Tick
)

// Idle is what a stream does between its events: it waits for a change of
// first or second (nil: none) and meanwhile shows the client that the stream
// lives. Before it returns, and so at least once per sweep, it asks authorize
// (nil allows). It fails when ctx ends, the node stops, the client is gone or
// authorize refuses.
func (s *Stream) Idle(ctx context.Context, authorize func(context.Context) error, first, second <-chan struct{}) (Wakeup, error) {
	for {
		why := Tick
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-s.hub.closing:
			return 0, errClosing
		case <-daemon.Draining(ctx): // before the hub: the server waits for its streams
			return 0, errClosing
		case <-s.comment.C:
			if err := s.Flush(); err != nil {
				return 0, err
			}
			continue
		case <-first:
			why = First
		case <-second:
			why = Second
		case <-s.check.C:
		}
		if authorize == nil {
			return why, nil
		}
		return why, authorize(ctx)
	}
}
