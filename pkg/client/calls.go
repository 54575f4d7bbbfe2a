package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Call is one tool call.
type Call struct {
	ID         string    `json:"id"`
	Topic      string    `json:"topic"`
	Turn       string    `json:"turn"`
	MessageID  string    `json:"messageId"`
	ToolCallID string    `json:"toolCallId"`
	Tool       string    `json:"tool"`
	Effect     string    `json:"effect,omitzero"`
	State      string    `json:"state"`
	Run        string    `json:"run,omitzero"` // queued, started, stopped, succeeded, failed, outcome-unknown, closed
	Outcome    string    `json:"outcome,omitzero"`
	Executor   string    `json:"executor"`
	ApprovalID string    `json:"approvalId,omitzero"`
	Digest     string    `json:"digest,omitzero"`
	ErrorText  string    `json:"errorText,omitzero"`
	Attempts   []Attempt `json:"attempts,omitzero"` // of one call, not in lists

	ResolvableAt time.Time `json:"resolvableAt,omitzero"`        // of an outcome-unknown run: from when a person can resolve it
	Resolution   *Resolved `json:"resolution,omitzero"`          // what a person found out about it
	Repeats      *Earlier  `json:"possibleDuplicateOf,omitzero"` // a call of unknown outcome that this one may repeat

	Raw json.RawMessage `json:"-"` // the whole document
}

// Attempt is one try to run a call.
type Attempt struct {
	Fence      int64     `json:"fence"`
	Worker     string    `json:"worker,omitzero"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"` // zero while it runs
	Outcome    string    `json:"outcome,omitzero"`
	Detail     string    `json:"detail,omitzero"`
}

// UnmarshalJSON keeps the whole document beside what is named.
func (call *Call) UnmarshalJSON(raw []byte) error {
	type named Call
	if err := json.Unmarshal(raw, (*named)(call)); err != nil {
		return err
	}
	call.Raw = append(json.RawMessage(nil), raw...)
	return nil
}

// CallFilter selects calls.
type CallFilter struct {
	Paging
	State    string
	Executor string
	Topic    string
}

// Calls reads a page of calls. With [Wait] it answers when there is one.
func (c *Client) Calls(ctx context.Context, filter CallFilter, options ...ReadOption) (Page[Call], error) {
	query := filter.query("state", filter.State, "executor", filter.Executor, "topic", filter.Topic)
	return read[Page[Call]](ctx, c, "/v1/calls", query, options)
}

// Call reads one call with its attempts.
func (c *Client) Call(ctx context.Context, id string, options ...ReadOption) (Call, error) {
	return read[Call](ctx, c, path("v1", "calls", id), nil, options)
}

// CallInput reads the exact bytes of a call's input.
func (c *Client) CallInput(ctx context.Context, id string) ([]byte, error) {
	var input []byte
	err := c.perform(ctx, get(path("v1", "calls", id, "input"), nil), func(body []byte) error {
		input = body
		return nil
	})
	return input, err
}

// ClaimRequest starts a call that the backend runs itself.
type ClaimRequest struct {
	ClaimID string `json:"claimId"`
	Lease   string `json:"lease,omitzero"` // "60s"
}

// Claim is a started call: whoever has it runs it.
type Claim struct {
	Fence      int64           `json:"fence"`
	Token      string          `json:"token"`
	LeaseUntil time.Time       `json:"leaseUntil"`
	Digest     string          `json:"digest"`
	Input      json.RawMessage `json:"input"`
}

// ClaimCall claims a queued call. Without a ClaimID it makes one; the same id
// again gets the same answer, so an answer that was lost is not a lost call.
//
// Problem: not-claimable.
func (c *Client) ClaimCall(ctx context.Context, id string, claim ClaimRequest) (Claim, error) {
	if claim.ClaimID == "" {
		claim.ClaimID = newID()
	}
	return send[Claim](ctx, c, request{
		method: http.MethodPost, path: path("v1", "calls", id, "claim"), body: claim, repeat: true,
	})
}

// Lease is what a heartbeat answers.
type Lease struct {
	LeaseUntil time.Time `json:"leaseUntil"`
	Cancel     bool      `json:"cancel,omitzero"` // the turn has ended: stop if that is possible
}

// HeartbeatCall renews the lease of a claimed call. Problem: fence-lost.
func (c *Client) HeartbeatCall(ctx context.Context, id string, fence int64, token string) (Lease, error) {
	body := struct {
		Fence int64  `json:"fence"`
		Token string `json:"token"`
	}{fence, token}
	return send[Lease](ctx, c, request{
		method: http.MethodPost, path: path("v1", "calls", id, "heartbeat"), body: body, repeat: true,
	})
}

// Result ends a claimed call, with exactly one of Output, ErrorText, Unknown.
type Result struct {
	Fence     int64           `json:"fence"`
	Token     string          `json:"token"`
	Output    json.RawMessage `json:"output,omitzero"`
	ErrorText string          `json:"errorText,omitzero"`
	Unknown   bool            `json:"unknown,omitzero"` // nobody can say whether it happened
}

// ResultCall records the result of a claimed call. The same result again is
// answered the same. Problems: fence-lost, result-conflict.
func (c *Client) ResultCall(ctx context.Context, id string, result Result) (json.RawMessage, error) {
	return send[json.RawMessage](ctx, c, request{
		method: http.MethodPost, path: path("v1", "calls", id, "result"), body: result, repeat: true,
	})
}
