package httpapi

import (
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
	cards, err := listOrWait(r, f.Topic, func() ([]store.Card, error) { return a.Store.Cards(r.Context(), r.tenant(), f) })
	if err != nil {
		return answer{}, err
	}
	return ok(page(cards, limit, view.NewCard, func(c store.Card) string { return cursorOf(string(c.Call.Approval.ID)) })), nil
}

func (r *request) cardFilter() (f store.CardFilter, _ int, err error) {
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
	limit, cursor, err := r.paging()
	if err != nil {
		return f, 0, err
	}
	f.Limit = limit + 1
	f.Before, err = idAfter[model.ApprovalID](cursor)
	return f, limit, err
}

func (a *API) getApproval(r *request) (answer, error) {
	id, err := idIn[model.ApprovalID](r, "approval")
	if err != nil {
		return answer{}, err
	}
	card, err := readOrWait(r, waitable[store.Card]{
		read:  func() (store.Card, error) { return a.Store.Card(r.Context(), r.tenant(), id) },
		place: func(c store.Card) (model.TopicID, model.TurnID) { return c.Topic, c.Turn },
		news:  func(_, now store.Card) bool { return now.Call.Approval.State != model.ApprovalRequested },
	})
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewCard(card)), nil
}
