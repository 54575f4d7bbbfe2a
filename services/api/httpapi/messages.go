package httpapi

import (
	"errors"
	"strconv"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/services/api/view"
)

// MessagesAnswer is what follows from appending messages.
type MessagesAnswer struct {
	Topic    view.TopicBody   `json:"topic"`
	Messages []strictjson.Raw `json:"messages" doc:"The messages as they were sent."`
	Reply    model.TurnID     `json:"reply,omitzero" doc:"The turn that asks for the reply, and so the id of the continuation to accept."`
}

func (a *API) postMessages(r *request, in approval.MessagesRequest) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	out, err := a.cases.AppendMessages(r.Context(), r.origin(), topic, in)
	if err != nil {
		return answer{}, r.explainOpen(err, out.Open)
	}
	t, err := r.topicNow(out.Topic, nil)
	if err != nil {
		return answer{}, err
	}
	return created(out.Created, MessagesAnswer{t, in.Messages, out.Reply}), nil
}

// explainOpen adds the turn that is in the way, with its continuation.
func (r *request) explainOpen(err error, open *store.OpenTurn) error {
	if open == nil || !errors.Is(err, model.ErrTurnOpen) {
		return err
	}
	return r.explainTurn(err, open.Turn)
}

// explainTurn adds a turn to an error. One that cannot be read is left out:
// the error matters more.
func (r *request) explainTurn(err error, id model.TurnID) error {
	t, readErr := r.api.Store.Turn(r.Context(), r.tenant(), id)
	if readErr != nil {
		return err
	}
	return explain(err, func(p *Problem) {
		v := view.NewTurn(t, 0)
		p.Turn, p.State = &v, string(v.State)
	})
}

func (a *API) listMessages(r *request) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	limit, cursor, err := r.paging()
	if err != nil {
		return answer{}, err
	}
	var after int64
	if cursor != "" {
		if after, err = strconv.ParseInt(cursor, 10, 64); err != nil || after < 0 {
			return answer{}, errCursor
		}
	}
	if err := r.atLeast(topic); err != nil {
		return answer{}, err
	}
	h, err := a.Store.Messages(r.Context(), r.tenant(), topic, store.Range{After: after, Limit: limit + 1})
	if err != nil {
		return answer{}, err
	}
	return ok(page(h.Messages, limit,
		func(m store.Message) strictjson.Raw { return strictjson.Raw(uimessage.Signed(m, a.Sign)) },
		func(m store.Message) string { return cursorOf(strconv.FormatInt(m.Position, 10)) })), nil
}
