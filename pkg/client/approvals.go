package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// ApprovalFilter selects cards; the zero value is what the server lists by
// itself.
type ApprovalFilter struct {
	Paging
	State    string
	Topic    string
	Tool     string
	Assignee string
}

// Approvals reads a page of cards, newest first.
func (c *Client) Approvals(ctx context.Context, filter ApprovalFilter, options ...ReadOption) (Page[Approval], error) {
	query := filter.query("state", filter.State, "topic", filter.Topic, "tool", filter.Tool, "assignee", filter.Assignee)
	return read[Page[Approval]](ctx, c, "/v1/approvals", query, options)
}

// Approval reads one card. With [Wait] it answers when the card is decided.
func (c *Client) Approval(ctx context.Context, id string, options ...ReadOption) (Approval, error) {
	return read[Approval](ctx, c, path("v1", "approvals", id), nil, options)
}

// Decision is an answer to a card.
type Decision struct {
	Approved     bool            `json:"approved"`
	Reason       string          `json:"reason,omitzero"`
	UpdatedInput json.RawMessage `json:"updatedInput,omitzero"` // replaces the input
	Digest       string          `json:"digest,omitzero"`       // of the card that was shown
	DecisionID   string          `json:"decisionId,omitzero"`
}

// DecisionAnswer is what became of a decision.
type DecisionAnswer struct {
	Result   string   `json:"result"` // applied, already-applied, recorded
	Approval Approval `json:"approval"`
	Turn     Turn     `json:"turn"`
	Topic    Topic    `json:"topic"`

	Raw json.RawMessage `json:"-"` // the whole document; with recorded, who has answered and what is still needed
}

// UnmarshalJSON keeps the whole document beside what is named.
func (a *DecisionAnswer) UnmarshalJSON(raw []byte) error {
	type named DecisionAnswer
	if err := json.Unmarshal(raw, (*named)(a)); err != nil {
		return err
	}
	a.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Decide answers a card. A decision without a DecisionID gets one here, and
// is repeated under it until an answer comes: it is applied once.
//
// Problems: not-found, decision-id-reused, not-permitted, already-decided,
// card-stale, invalid; status 410 for a card that is no longer open.
func (c *Client) Decide(ctx context.Context, approval string, decision Decision) (DecisionAnswer, error) {
	if decision.DecisionID == "" {
		decision.DecisionID = newID()
	}
	return send[DecisionAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "approvals", approval, "decision"), body: decision, repeat: true,
	})
}

// BatchDecision is one answer of several.
type BatchDecision struct {
	ApprovalID string `json:"approvalId"`
	Decision
}

// BatchAnswer is what became of one decision of several.
type BatchAnswer struct {
	ApprovalID string
	Status     int             // the status that [Client.Decide] would have got
	Answer     *DecisionAnswer // for a status below 300, else nil
	Problem    *Problem        // for any other status, else nil
}

// UnmarshalJSON tells answers and problems apart by their status.
func (b *BatchAnswer) UnmarshalJSON(raw []byte) error {
	var head struct {
		ApprovalID string `json:"approvalId"`
		Status     int    `json:"status"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	*b = BatchAnswer{ApprovalID: head.ApprovalID, Status: head.Status}
	if head.Status < 300 {
		b.Answer = new(DecisionAnswer)
		return json.Unmarshal(raw, b.Answer)
	}
	b.Problem = &Problem{Raw: append(json.RawMessage(nil), raw...)}
	return json.Unmarshal(raw, b.Problem)
}

// DecideMany answers up to 100 cards in one request; each has its own
// outcome, in the order given.
func (c *Client) DecideMany(ctx context.Context, decisions []BatchDecision) ([]BatchAnswer, error) {
	body := struct {
		Decisions []BatchDecision `json:"decisions"`
	}{make([]BatchDecision, len(decisions))}
	for i, decision := range decisions {
		if decision.DecisionID == "" {
			decision.DecisionID = newID()
		}
		body.Decisions[i] = decision
	}
	answer, err := send[Page[BatchAnswer]](ctx, c, request{
		method: http.MethodPost, path: "/v1/decisions", body: body, repeat: true,
	})
	return answer.Items, err
}
