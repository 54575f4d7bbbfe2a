package aisdk

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/watch"
)

// Rows is what windows read; *store.Store is one.
type Rows interface {
	TopicViews(ctx context.Context, keys []store.TopicKey) ([]store.TopicView, error)
	Messages(ctx context.Context, tenant model.TenantID, topic model.TopicID, r store.Range) (store.History, error)
	TopicSettings(ctx context.Context, tenant model.TenantID, topic model.TopicID) (store.TopicSettings, error)
	Turn(ctx context.Context, tenant model.TenantID, id model.TurnID) (*model.Turn, error)
}

// Windows gives the windows of conversations their streams.
type Windows struct {
	Rows   Rows
	Hub    *watch.Hub
	Signer *uistream.Signer // of approval requests; nil signs none
	Hold   time.Duration    // how long a response stays open on which nothing comes
	Log    *slog.Logger

	feeds *feeds
}

// NewWindows makes the windows of a node.
func NewWindows(rows Rows, hub *watch.Hub, chunks Chunks, signer *uistream.Signer, hold time.Duration, log *slog.Logger) *Windows {
	return &Windows{Rows: rows, Hub: hub, Signer: signer, Hold: hold, Log: log, feeds: &feeds{chunks: chunks, open: map[feedKey]*feed{}}}
}

// Subscription is one window's wish to follow a topic.
type Subscription struct {
	Topic     store.TopicKey
	Version   uistream.Version
	Authorize func(context.Context) error // whether it still may read
}

// Resume tells the message that is being written, from its first chunk on,
// and follows it. With nothing active it answers 204. Before anything is
// written it may return an error for the caller to answer.
func (ws *Windows) Resume(w http.ResponseWriter, r *http.Request, c Subscription) error {
	watching := ws.Hub.Watch(c.Topic) // watch first, read after
	defer watching.Close()
	views, err := ws.Rows.TopicViews(r.Context(), []store.TopicKey{c.Topic})
	if err != nil {
		return err
	}
	turn, active := activeTurn(views)
	if !active {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	win := ws.window(w, watching, c)
	defer win.out.silence.Stop()
	if turn.Reply {
		ws.close(r.Context(), win.answer(r.Context(), turn.ID))
	} else {
		ws.close(r.Context(), win.begin(r.Context(), turn.Message))
	}
	return nil
}

// Answer tells the message that answers a turn which asks for a reply, from
// the time when somebody begins it.
func (ws *Windows) Answer(w http.ResponseWriter, r *http.Request, c Subscription, asked model.TurnID) {
	watching := ws.Hub.Watch(c.Topic) // watch first, read after
	defer watching.Close()
	win := ws.window(w, watching, c)
	defer win.out.silence.Stop()
	ws.close(r.Context(), win.answer(r.Context(), asked))
}

// Continue goes on with a message of which the client has parts: it is told
// the differences alone.
func (ws *Windows) Continue(w http.ResponseWriter, r *http.Request, c Subscription, has ClientMessage) {
	watching := ws.Hub.Watch(c.Topic)
	defer watching.Close()
	win := ws.window(w, watching, c)
	defer win.out.silence.Stop()
	win.told, win.steps = has.Told, has.Steps
	ws.close(r.Context(), win.begin(r.Context(), has.ID))
}

func (ws *Windows) window(w http.ResponseWriter, watching *watch.Watch, c Subscription) *window {
	return &window{Windows: ws, out: openFrames(w), version: c.Version, topic: c.Topic, watch: watching, may: c.Authorize}
}

// close ends a response that has begun. One that could not be told to its end
// is cut off, so that its client does not take it for whole.
func (ws *Windows) close(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if !errors.Is(err, errReset) && ctx.Err() == nil {
		ws.Log.WarnContext(ctx, "a window's stream ended early", "error", err)
	}
	panic(http.ErrAbortHandler)
}

// activeTurn is the turn on which the model, a tool or a backend is at work:
// the newest one, if there are several. Where every continuation has failed
// nobody is.
func activeTurn(views []store.TopicView) (t store.TurnView, active bool) {
	if len(views) == 0 {
		return t, false
	}
	turns := views[0].Turns
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Queued { // its windows wait with their own responses
			continue
		}
		switch turns[i].State {
		case model.TurnContinuing:
			if views[0].Counters.Continuing == 0 {
				continue
			}
			return turns[i], true
		case model.TurnStreaming, model.TurnExecuting:
			return turns[i], true
		}
	}
	return t, false
}
