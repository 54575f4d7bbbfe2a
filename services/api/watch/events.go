package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/services/api/view"
)

// FromNow is where a stream begins whose client knows nothing: with the
// status and the messages of open turns.
const FromNow int64 = -1

// moved is where a stream stands whose database failed over: what it was told
// may be of rows that are gone, under versions that others have now. It is
// told everything again.
const moved int64 = 0

// pageSize is how many messages are read at once for a client that catches up.
const pageSize = 50

// LastEventID reads the version after which a client wants to go on, or
// [FromNow]. The error says what the header must be.
func LastEventID(r *http.Request) (int64, error) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return FromNow, nil
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 0 {
		return 0, fmt.Errorf("Last-Event-ID must be the id of a status event, a whole number: %w", model.ErrInvalid)
	}
	return version, nil
}

// Subscription is one client's wish to follow a topic.
type Subscription struct {
	Topic store.TopicKey
	After int64  // a version, or FromNow
	Key   string // the name of the API key, or the person, for the bound on streams
	// Authorize tells whether the client still may read the topic; asked
	// before each event and at least once per sweep. Nil allows.
	Authorize func(context.Context) error
}

// Events follows a topic until the client goes. For each version that it
// tells of, first come the messages that changed, whole (event message, no
// id), then the status with the version as its id; versions that follow each
// other quickly are told of as one. Before anything is written it may return
// [model.ErrNotFound], [ErrTooManyStreams] or another error of the first
// reading, for the caller to answer; after that it returns nil.
func (h *Hub) Events(out http.ResponseWriter, r *http.Request, sub Subscription) error {
	// Watch first, read after.
	w := h.Watch(sub.Topic)
	defer w.Close()
	e := &events{hub: h, topic: sub.Topic, last: sub.After, watch: w}
	first, err := e.read(r.Context())
	if err != nil {
		return err
	}
	stream, end, err := h.Open(out, string(sub.Topic.Tenant)+"\x00"+sub.Key)
	if err != nil {
		return err
	}
	defer end()
	e.write(stream, first)
	if stream.Flush() != nil {
		return nil
	}
	for err == nil {
		err = e.next(r.Context(), stream, sub.Authorize)
	}
	return nil // the response has begun
}

// next waits for a change and tells of it.
func (e *events) next(ctx context.Context, s *Stream, authorize func(context.Context) error) error {
	why, err := s.Idle(ctx, authorize, e.watch.Changed(), nil)
	if err != nil || why != First || !e.watch.Again() {
		return err
	}
	found, err := e.read(ctx)
	if err != nil {
		return err
	}
	if !e.write(s, found) {
		return nil
	}
	return s.Flush()
}

// events is where one stream stands.
type events struct {
	hub   *Hub
	topic store.TopicKey
	watch *Watch
	last  int64  // the version of the last status told
	epoch string // of the database in which it was read
}

// told is what one reading found: a topic, and messages that are no older.
type told struct {
	topic    store.TopicView
	messages []store.Message
	dropped  []model.MessageID
}

// read reads the status first and the messages after it, so that whoever
// knows the status' version has every message of it.
func (e *events) read(ctx context.Context) (told, error) {
	views, err := e.hub.rows.TopicViews(ctx, []store.TopicKey{e.topic})
	if err != nil {
		return told{}, err
	}
	if len(views) == 0 {
		return told{}, model.ErrNotFound
	}
	out := told{topic: views[0]}
	if e.epoch != "" && e.epoch != out.topic.Epoch && e.last != FromNow {
		e.last = moved
	}
	if e.last == FromNow {
		out.messages, err = e.anchors(ctx, views[0].Turns)
	} else {
		err = e.changed(ctx, &out)
	}
	return out, err
}

// anchors reads the messages of the open turns.
func (e *events) anchors(ctx context.Context, turns []store.TurnView) (out []store.Message, err error) {
	seen := map[model.MessageID]bool{}
	for _, t := range turns {
		if seen[t.Message] {
			continue
		}
		seen[t.Message] = true
		history, err := e.hub.rows.Messages(ctx, e.topic.Tenant, e.topic.Topic, store.Range{ID: t.Message})
		if err != nil {
			return nil, err
		}
		out = append(out, history.Messages...)
	}
	return out, nil
}

// changed reads the messages that changed after the last status. A client
// that is ahead of the rows knew a database that has gone back: it gets all.
func (e *events) changed(ctx context.Context, out *told) error {
	after, position := e.last, int64(0)
	if after > out.topic.Version {
		after = 0
	}
	for {
		page, err := e.hub.rows.Messages(ctx, e.topic.Tenant, e.topic.Topic,
			store.Range{ChangedAfter: after, After: position, Limit: pageSize})
		if err != nil {
			return err
		}
		if position == 0 {
			out.dropped = page.Dropped
		}
		out.messages = append(out.messages, page.Messages...)
		if len(page.Messages) < pageSize {
			return nil
		}
		position = page.Messages[len(page.Messages)-1].Position
	}
}

// write tells what was found, and whether there was anything to tell.
func (e *events) write(s *Stream, found told) bool {
	e.watch.Saw(found.topic.Version)
	e.epoch = found.topic.Epoch
	if found.topic.Version == e.last {
		return false
	}
	for _, id := range found.dropped {
		s.Event("dropped", 0, droppedMessage(id))
	}
	for _, m := range found.messages {
		s.Event("message", 0, uimessage.Signed(m, e.hub.opts.Sign))
	}
	s.Event("status", found.topic.Version, view.Topic(found.topic))
	e.last = found.topic.Version
	return true
}

// droppedMessage tells a client to forget a message.
func droppedMessage(id model.MessageID) []byte {
	out, err := json.Marshal(struct {
		ID model.MessageID `json:"id"`
	}{id})
	if err != nil {
		panic(err) // ids were checked
	}
	return out
}
