package watch

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// ErrTooManyStreams is that a key has as many open streams on this node as it
// may.
var ErrTooManyStreams = errors.New("this key has too many open event streams; close some, or ask another node")

// Stream writes server-sent events to one client. Each event must be taken
// within the hub's write timeout, else the stream ends: a client that is too
// slow holds nothing of ours and catches up when it reconnects.
type Stream struct {
	hub *Hub
	out http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

// Open counts a stream against key and begins the response. The returned
// function ends the stream. Errors: [ErrTooManyStreams]; nothing is written
// then.
func (h *Hub) Open(out http.ResponseWriter, key string) (*Stream, func(), error) {
	if !h.enter(key) {
		return nil, nil, ErrTooManyStreams
	}
	s := &Stream{hub: h, out: out, rc: http.NewResponseController(out)}
	header := out.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // proxies must not collect events
	// The server's timeouts are for requests; a stream lasts.
	_ = s.rc.SetReadDeadline(time.Time{})
	_ = s.rc.SetWriteDeadline(time.Time{})
	out.WriteHeader(http.StatusOK)
	return s, func() { h.leave(key) }, nil
}

func (h *Hub) enter(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams[key] >= h.opts.StreamsPerKey {
		return false
	}
	h.streams[key]++
	return true
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
	return s.rc.Flush()
}

// Follow is what a stream does between its events: it waits on w and calls
// read for each change, until ctx ends, the node stops, the client is gone,
// or authorize or read fail. authorize is asked before each read and at least
// once per sweep; nil allows. read adds events; they are sent when it returns.
func (s *Stream) Follow(ctx context.Context, w *Watch, authorize func(context.Context) error, read func(context.Context) error) error {
	check := time.NewTicker(s.hub.opts.Sweep)
	defer check.Stop()
	comment := time.NewTicker(s.hub.opts.Comment)
	defer comment.Stop()
	for {
		due := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.hub.closing:
			return errClosing
		case <-w.Changed():
			due = w.Again()
		case <-check.C:
		case <-comment.C:
			if err := s.Flush(); err != nil {
				return err
			}
			continue
		}
		if authorize != nil {
			if err := authorize(ctx); err != nil {
				return err
			}
		}
		if !due {
			continue
		}
		if err := read(ctx); err != nil {
			return err
		}
		if s.buf.Len() > 0 {
			if err := s.Flush(); err != nil {
				return err
			}
			comment.Reset(s.hub.opts.Comment)
		}
	}
}
