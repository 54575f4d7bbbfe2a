package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// FromNow begins an event stream with the topic's status and its open cards.
const FromNow int64 = -1

// silence ends a connection on which nothing came, not even the comment that
// the server sends every 15 seconds.
const silence = 45 * time.Second

// Event is a change of a topic: one of Message, Dropped and Status is set.
type Event struct {
	Message *Message // a changed message, whole
	Dropped string   // the id of a message that is no part of the conversation any more
	Status  *Topic   // follows the messages of its version
	Version int64    // with Status: everything up to it has been told
}

// Events follows a topic: everything that changed after the version after, or
// from [FromNow] on. It reconnects by itself, as long as ctx lasts, and goes
// on behind the last status it gave; a message that came before a cut may
// come again, never an older one after a newer. The iteration ends with an
// error: ctx's, or a problem that reconnecting does not mend.
func (c *Client) Events(ctx context.Context, topic string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := stream{client: c, topic: topic, last: after, yield: yield}
		for failures := 0; ; failures++ {
			before := s.last
			err := s.connection(ctx)
			switch {
			case s.stopped:
				return
			case ctx.Err() != nil:
				yield(Event{}, ctx.Err())
				return
			case final(err):
				yield(Event{}, err)
				return
			case s.last != before:
				failures = 0
			}
			pause(ctx, max(retryAfter(err), backoff(failures+1)))
		}
	}
}

// stream is the state of one iteration over its connections.
type stream struct {
	client  *Client
	topic   string
	last    int64 // the version of the last status given
	yield   func(Event, error) bool
	stopped bool // by the caller
}

// connection reads one connection to its end.
func (s *stream) connection(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := time.AfterFunc(silence, cancel)
	defer watch.Stop()
	body, err := s.client.stream(ctx, s.topic, s.last)
	if err != nil {
		return err
	}
	defer body.Close()
	in := newFrames(body, func() { watch.Reset(silence) })
	for {
		got, err := in.next()
		if err != nil {
			return &unreached{err}
		}
		if err := s.give(got); err != nil || s.stopped {
			return err
		}
	}
}

// give hands one event to the caller.
func (s *stream) give(got frame) error {
	var event Event
	var err error
	switch got.event {
	case "message":
		event.Message = new(Message)
		err = json.Unmarshal(got.data, event.Message)
	case "dropped":
		var dropped struct{ ID string }
		err = json.Unmarshal(got.data, &dropped)
		event.Dropped = dropped.ID
	case "status":
		event.Status = new(Topic)
		err = json.Unmarshal(got.data, event.Status)
		event.Version = event.Status.Version
	default:
		return nil // of a later version of the contract
	}
	if err != nil {
		return fmt.Errorf("read event %q of topic %q: %w", got.event, s.topic, err)
	}
	if version, err := strconv.ParseInt(got.id, 10, 64); err == nil && event.Status != nil {
		event.Version = version
	}
	s.stopped = !s.yield(event, nil)
	if event.Status != nil {
		s.last = event.Version
	}
	return nil
}

// stream opens a topic's event stream.
func (c *Client) stream(ctx context.Context, topic string, after int64) (io.ReadCloser, error) {
	header := http.Header{}
	if after >= 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	response, err := c.open(ctx, request{
		method: http.MethodGet, path: path("v1", "topics", topic, "events"), header: header,
	}, nil)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return response.Body, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, &unreached{err}
	}
	return nil, problem(response, body)
}

// final tells whether connecting again cannot help.
func final(err error) bool {
	if cut(err) {
		return false
	}
	answer, ok := errors.AsType[*Problem](err)
	return !ok || answer.Status < 500 &&
		answer.Status != http.StatusTooManyRequests && answer.Status != http.StatusRequestTimeout
}

func retryAfter(err error) time.Duration {
	if answer, ok := errors.AsType[*Problem](err); ok {
		return asked(answer)
	}
	return 0
}
