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
	ID         string            `json:"id"`
	Topic      string            `json:"topic"`
	Turn       string            `json:"turn"`
	MessageID  string            `json:"messageId,omitzero"`
	State      string            `json:"state"` // ready, dispatched, accepted, failed, superseded
	Generation int               `json:"generation,omitzero"`
	Version    int64             `json:"version,omitzero"`
	Sink       *Sink             `json:"sink,omitzero"`
	Attempts   int               `json:"attempts,omitzero"`
	LastError  string            `json:"lastError,omitzero"`
	ReadyAt    time.Time         `json:"readyAt,omitzero"`
	AcceptedBy string            `json:"acceptedBy,omitzero"`
	Notes      []json.RawMessage `json:"notes,omitzero"`
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
