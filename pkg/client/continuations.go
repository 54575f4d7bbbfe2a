package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Continuation is the one dispatch that lets a conversation go on after a
// turn. Its id is its turn's.
type Continuation struct {
	ID          string            `json:"id"`
	Topic       string            `json:"topic"`
	Turn        string            `json:"turn"`
	MessageID   string            `json:"messageId,omitzero"`
	Version     int64             `json:"version,omitzero"`
	State       string            `json:"state"`               // ready, dispatched, accepted, failed, superseded
	Generation  int               `json:"generation,omitzero"` // grows when its next turn died
	Sink        *Sink             `json:"sink,omitzero"`
	Deliveries  int               `json:"deliveries,omitzero"`
	ReadyAt     time.Time         `json:"readyAt,omitzero"`
	NextAt      time.Time         `json:"nextAt,omitzero"` // of the next delivery
	DeliveredAt time.Time         `json:"deliveredAt,omitzero"`
	LastError   string            `json:"lastError,omitzero"`
	AcceptedBy  string            `json:"acceptedBy,omitzero"` // the turn that goes on
	Notes       []json.RawMessage `json:"notes,omitzero"`      // what the model is told: edited inputs
}

// ContinuationFilter selects continuations.
type ContinuationFilter struct {
	Paging
	State string
	Topic string
}

// Continuations reads a page of continuations.
func (c *Client) Continuations(ctx context.Context, filter ContinuationFilter, options ...ReadOption) (Page[Continuation], error) {
	return read[Page[Continuation]](ctx, c, "/v1/continuations", filter.query("state", filter.State, "topic", filter.Topic), options)
}

// Redrive makes a failed continuation ready again. For one that was accepted
// it is a problem with status 409.
func (c *Client) Redrive(ctx context.Context, id string) (json.RawMessage, error) {
	return send[json.RawMessage](ctx, c, request{
		method: http.MethodPost, path: path("v1", "continuations", id, "redrive"), body: struct{}{}, repeat: true,
	})
}
