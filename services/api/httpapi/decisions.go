package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

// DecisionAnswer is what became of a decision.
type DecisionAnswer struct {
	Result      model.DecisionResult `json:"result" enum:"applied,already-applied,recorded"`
	StillNeeded int                  `json:"stillNeeded,omitzero" doc:"How many more people must approve."`
	Approval    view.Card            `json:"approval"`
	Turn        view.Turn            `json:"turn"`
	Topic       view.TopicBody       `json:"topic"`
}

func (a *API) decide(r *request, in approval.DecisionRequest) (answer, error) {
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if in.DecisionID != "" && in.DecisionID != key {
			return answer{}, approval.NewInvalid("/decisionId", "differs from the header Idempotency-Key; send one of them")
		}
		in.DecisionID = key
	}
	out, err := r.decideOne(r.PathValue("approval"), in)
	return ok(out), err
}

// decideOne answers one approval. An error carries the card as it is now.
func (r *request) decideOne(id string, in approval.DecisionRequest) (DecisionAnswer, error) {
	which, err := model.ParseUUID[model.ApprovalID](id)
	if err != nil {
		return DecisionAnswer{}, err
	}
	out, err := r.api.cases.Decide(r.Context(), r.origin(), which, in)
	if err != nil {
		return DecisionAnswer{}, r.explainCard(err, which)
	}
	card, err := r.api.Store.Card(r.Context(), r.tenant(), which)
	if err != nil {
		return DecisionAnswer{}, err
	}
	topic, err := r.topicNow(out.Topic, out.Turn)
	if err != nil {
		return DecisionAnswer{}, err
	}
	body := DecisionAnswer{Result: out.Result, Approval: view.NewCard(card), Turn: view.NewTurn(out.Turn, out.Topic.Version), Topic: topic}
	if out.Result == model.DecisionRecorded {
		body.StillNeeded = stillNeeded(out)
	}
	return body, nil
}

func stillNeeded(out store.Decided) int {
	return max(out.Call.Approval.Rule.Quorum-len(out.Approvers), 0)
}

// explainCard adds the card as it is now to an error about it.
func (r *request) explainCard(err error, id model.ApprovalID) error {
	switch {
	case errors.Is(err, model.ErrAlreadyDecided), errors.Is(err, model.ErrApprovalClosed), errors.Is(err, model.ErrCardStale):
	default:
		return err
	}
	card, readErr := r.api.Store.Card(r.Context(), r.tenant(), id)
	if readErr != nil {
		return err
	}
	return explain(err, func(p *Problem) {
		v := view.NewCard(card)
		p.Approval, p.State = &v, string(v.State)
		switch {
		case errors.Is(err, model.ErrApprovalClosed):
			p.Detail = fmt.Sprintf("The card is %s: %s", v.State, v.Reason)
		case v.Decision != nil && errors.Is(err, model.ErrAlreadyDecided):
			p.Detail = fmt.Sprintf("The card was %s before; that verdict is final.", v.State)
		}
	})
}

// maxDecisions bounds a batch.
const maxDecisions = 100

// batchRequest is several answers at once.
type batchRequest struct {
	Decisions []batchDecision `json:"decisions"`
}

type batchDecision struct {
	ApprovalID string `json:"approvalId"`
	approval.DecisionRequest
}

// BatchItem is what became of one answer of several: its status, and the
// members of the answer or of the problem that it would have got by itself.
type BatchItem struct {
	ApprovalID string `json:"approvalId"`
	Status     int    `json:"status"`

	Result      model.DecisionResult `json:"result,omitzero" enum:"applied,already-applied,recorded"`
	StillNeeded int                  `json:"stillNeeded,omitzero"`
	Approval    *view.Card           `json:"approval,omitzero"`
	Turn        *view.Turn           `json:"turn,omitzero"`
	Topic       *view.TopicBody      `json:"topic,omitzero"`

	Type     string         `json:"type,omitzero"`
	Title    string         `json:"title,omitzero"`
	Detail   string         `json:"detail,omitzero"`
	Instance string         `json:"instance,omitzero"`
	Errors   []ProblemError `json:"errors,omitzero"`
	State    string         `json:"state,omitzero"`
}

// decideMany answers several cards. Those of one card are answered one after
// the other, in order; different cards go at once, so that they share a
// commit.
func (a *API) decideMany(r *request, in batchRequest) (answer, error) {
	if n := len(in.Decisions); n == 0 || n > maxDecisions {
		return answer{}, approval.NewInvalid("/decisions", fmt.Sprintf("must have 1 to %d items", maxDecisions))
	}
	items := make([]BatchItem, len(in.Decisions))
	byCard := map[string][]int{}
	for i, d := range in.Decisions {
		byCard[d.ApprovalID] = append(byCard[d.ApprovalID], i)
	}
	var all sync.WaitGroup
	for _, group := range byCard {
		all.Go(func() {
			for _, i := range group {
				items[i] = r.batchItem(in.Decisions[i])
			}
		})
	}
	all.Wait()
	return ok(Page[BatchItem]{Items: items}), nil
}

func (r *request) batchItem(d batchDecision) (item BatchItem) {
	defer func() {
		if cause := recover(); cause != nil {
			r.api.Log.ErrorContext(r.Context(), "a decision of a batch panicked", "panic", fmt.Sprint(cause))
			item = failedItem(d.ApprovalID, errPanicked)
		}
	}()
	out, err := r.decideOne(d.ApprovalID, d.DecisionRequest)
	if err != nil {
		item = failedItem(d.ApprovalID, err)
		if item.Status >= http.StatusInternalServerError {
			r.api.Log.ErrorContext(r.Context(), "a decision of a batch failed", "approval", d.ApprovalID, "err", err)
		}
		return item
	}
	return BatchItem{
		ApprovalID: d.ApprovalID, Status: http.StatusOK, Result: out.Result, StillNeeded: out.StillNeeded,
		Approval: &out.Approval, Turn: &out.Turn, Topic: &out.Topic,
	}
}

func failedItem(id string, err error) BatchItem {
	p := problemOf(err)
	return BatchItem{
		ApprovalID: id, Status: p.Status, Approval: p.Approval, Type: p.Type, Title: p.Title, Detail: p.Detail,
		Instance: "/v1/approvals/" + url.PathEscape(id) + "/decision", Errors: p.Errors, State: p.State,
	}
}
