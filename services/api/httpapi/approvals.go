package httpapi

import (
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

var approvalStates = []string{
	string(model.ApprovalRequested), string(model.ApprovalApproved), string(model.ApprovalDenied), string(model.ApprovalExpired),
	string(model.ApprovalLapsed), string(model.ApprovalCancelled), string(model.ApprovalSuperseded),
}

func (a *API) listApprovals(r *request) (answer, error) {
	f, limit, err := r.cardFilter()
	if err != nil {
		return answer{}, err
	}
	wait, err := r.wait()
	if err != nil {
		return answer{}, err
	}
	if err := r.atLeastIn(f.Topic); err != nil {
		return answer{}, err
	}
	var cards []store.Card
	err = r.awaitList(wait, f.Topic, func() (bool, error) {
		cards, err = a.Store.Cards(r.Context(), r.tenant(), f)
		return len(cards) > 0 || wait == 0, err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(page(cards, limit, view.NewCard, func(c store.Card) string { return cursorOf(string(c.Call.Approval.ID)) })), nil
}

func (r *request) cardFilter() (f store.CardFilter, limit int, err error) {
	state, err := r.word("state", approvalStates...)
	if err != nil {
		return f, 0, err
	}
	texts := map[string]string{}
	for _, name := range []string{"topic", "tool", "assignee"} {
		if texts[name], err = r.id(name); err != nil {
			return f, 0, err
		}
	}
	f = store.CardFilter{
		State: model.ApprovalState(state), Topic: model.TopicID(texts["topic"]), Tool: texts["tool"], Assignee: texts["assignee"],
		Topics: r.ownTopics(),
	}
	if limit, err = r.limit(); err != nil {
		return f, 0, err
	}
	f.Limit = limit + 1
	fields, err := r.cursor(1)
	if err != nil || fields == nil {
		return f, limit, err
	}
	if f.Before, err = model.ParseUUID[model.ApprovalID](fields[0]); err != nil {
		return f, 0, errCursor
	}
	return f, limit, nil
}

func (a *API) getApproval(r *request) (answer, error) {
	id, err := idIn[model.ApprovalID](r, "approval")
	if err != nil {
		return answer{}, err
	}
	wait, err := r.wait()
	if err != nil {
		return answer{}, err
	}
	card, err := a.Store.Card(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	least := r.param("minVersion") != ""
	if err := r.atLeast(card.Topic); err != nil {
		return answer{}, err
	}
	if wait > 0 {
		err = r.awaitCard(wait, &card)
	} else if least {
		card, err = a.Store.Card(r.Context(), r.tenant(), id)
	}
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewCard(card)), nil
}

// awaitCard waits until the card is not open any more, and leaves what it
// read last.
func (r *request) awaitCard(wait time.Duration, card *store.Card) error {
	turn, err := r.api.Store.Turn(r.Context(), r.tenant(), card.Turn)
	if err != nil {
		return err
	}
	id := card.Call.Approval.ID
	return r.await(wait, card.Topic, turn, func() (bool, error) {
		now, err := r.api.Store.Card(r.Context(), r.tenant(), id)
		if err != nil {
			return false, err
		}
		*card = now
		return now.Call.Approval.State != model.ApprovalRequested, nil
	})
}
