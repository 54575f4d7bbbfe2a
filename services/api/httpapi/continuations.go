package httpapi

import (
	"errors"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

var continuationStates = []string{
	string(model.ContinuationReady), string(model.ContinuationDispatched), string(model.ContinuationAccepted),
	string(model.ContinuationFailed), string(model.ContinuationSuperseded),
}

func (a *API) listContinuations(r *request) (answer, error) {
	state, err := r.word("state", continuationStates...)
	if err != nil {
		return answer{}, err
	}
	topic, err := r.id("topic")
	if err != nil {
		return answer{}, err
	}
	limit, cursor, err := r.paging()
	if err != nil {
		return answer{}, err
	}
	after, err := idAfter[model.TurnID](cursor)
	if err != nil {
		return answer{}, err
	}
	found, err := listOrWait(r, model.TopicID(topic), func() ([]store.ContinuationView, error) {
		return a.Store.Continuations(r.Context(), r.tenant(), model.ContinuationState(state), model.TopicID(topic), after, limit+1)
	})
	if err != nil {
		return answer{}, err
	}
	return r.pageOfContinuations(found, limit)
}

func (r *request) pageOfContinuations(found []store.ContinuationView, limit int) (answer, error) {
	turns := make([]model.TurnID, len(found))
	for i, c := range found {
		turns[i] = c.Turn
	}
	notes := map[model.TurnID][]model.Note{}
	if len(turns) > 0 {
		var err error
		if notes, err = r.api.Store.Notes(r.Context(), r.tenant(), turns...); err != nil {
			return answer{}, err
		}
	}
	show := func(c store.ContinuationView) view.Continuation { return view.NewContinuation(c, notes[c.Turn]) }
	return ok(page(found, limit, show, func(c store.ContinuationView) string { return cursorOf(string(c.Turn)) })), nil
}

// redriveRequest has nothing to say yet.
type redriveRequest struct{}

// RedriveAnswer is the turn whose continuation is ready again.
type RedriveAnswer struct {
	Turn    view.Turn `json:"turn"`
	Version int64     `json:"version"`
}

func (a *API) redrive(r *request, _ redriveRequest) (answer, error) {
	id, err := idIn[model.TurnID](r, "continuation")
	if err != nil {
		return answer{}, err
	}
	err = a.Store.Redrive(r.Context(), r.tenant(), id, r.actor(), r.via)
	if errors.Is(err, model.ErrContinuationAccepted) || errors.Is(err, model.ErrContinuationEnded) {
		return answer{}, r.explainTurn(err, id)
	}
	if err != nil {
		return answer{}, err
	}
	t, topic, err := a.Store.TurnInTopic(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	return ok(RedriveAnswer{view.NewTurn(t, topic.Version), topic.Version}), nil
}
