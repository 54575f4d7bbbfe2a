package client

import (
	"context"
	"net/http"

	"github.com/google/uuid"
)

// TurnRequest is a turn to register. Durations are texts ("60s", "1h").
type TurnRequest struct {
	MessageID   string `json:"messageId,omitzero"`
	Parts       []Part `json:"parts"`
	Continues   string `json:"continues,omitzero"`
	RequestedBy string `json:"requestedBy,omitzero"` // "user:alice"
	Sink        *Sink  `json:"sink,omitzero"`
	Execution   string `json:"execution,omitzero"` // when-decided, eager
	Executor    string `json:"executor,omitzero"`  // worker, caller
	Hold        *Hold  `json:"hold,omitzero"`
	ExpiresIn   string `json:"expiresIn,omitzero"`
	WhileOpen   string `json:"whileOpen,omitzero"` // block, the default; supersede; parallel, the default with Continues
}

// Hold marks a live caller that waits for the answers and goes on by itself.
type Hold struct {
	Lease   string `json:"lease"`
	OnLapse string `json:"onLapse"` // deny, park
}

// TurnAnswer is what a registered turn looks like.
type TurnAnswer struct {
	Topic   Topic   `json:"topic"`
	Turn    Turn    `json:"turn"`
	Message Message `json:"message"`
}

// RegisterTurn registers an assistant turn, which creates its topic if there
// is none. Registering the same turn again answers with the turn as it is
// now. A turn without a MessageID that continues nothing gets one here, so
// that it can be sent again safely.
//
// Problems: turn-conflict, turn-open, continuation-accepted, invalid.
func (c *Client) RegisterTurn(ctx context.Context, topic string, turn TurnRequest) (TurnAnswer, error) {
	if turn.MessageID == "" && turn.Continues == "" {
		turn.MessageID = "msg_" + newID()
	}
	if turn.Parts == nil {
		turn.Parts = []Part{}
	}
	return send[TurnAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "topics", topic, "turns"), body: turn, repeat: true,
	})
}

// OpenRequest opens a turn before its parts are known.
type OpenRequest struct {
	MessageID   string `json:"messageId,omitzero"`
	Continues   string `json:"continues,omitzero"`
	Lease       string `json:"lease,omitzero"` // how long it may stay without a sign of life
	RequestedBy string `json:"requestedBy,omitzero"`
	Sink        *Sink  `json:"sink,omitzero"`
	WhileOpen   string `json:"whileOpen,omitzero"`
}

// OpenAnswer is an open turn, with what its owner needs to end it.
type OpenAnswer struct {
	TurnAnswer
	Fence int64  `json:"fence"`
	Token string `json:"token"`
}

// OpenTurn opens a live turn; with Continues it accepts that continuation. It
// is sent once: of two openings one must lose, and a lost answer must not
// make the caller its own rival. When it fails without an answer, the lease
// gives the continuation back.
//
// Problems: continuation-accepted, turn-open.
func (c *Client) OpenTurn(ctx context.Context, topic string, open OpenRequest) (OpenAnswer, error) {
	body := struct {
		OpenRequest
		Live bool `json:"live"`
	}{open, true}
	return send[OpenAnswer](ctx, c, request{method: http.MethodPost, path: path("v1", "topics", topic, "turns"), body: body})
}

// FinishRequest ends a live turn with its parts, or with an error.
type FinishRequest struct {
	Fence int64  `json:"fence"`
	Token string `json:"token"`
	Parts []Part `json:"parts,omitzero"`
	Error string `json:"error,omitzero"`
}

// FinishTurn ends a live turn.
//
// Problems: fence-lost, turn-ended.
func (c *Client) FinishTurn(ctx context.Context, topic, turn string, finish FinishRequest) (TurnAnswer, error) {
	if finish.Parts == nil && finish.Error == "" {
		finish.Parts = []Part{}
	}
	return send[TurnAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "topics", topic, "turns", turn, "finish"), body: finish, repeat: true,
	})
}

// Turn reads one turn. With [Wait] it answers on any change, and renews the
// turn's hold.
func (c *Client) Turn(ctx context.Context, turn string, options ...ReadOption) (Turn, error) {
	return read[Turn](ctx, c, path("v1", "turns", turn), nil, options)
}

// newID is random and sorts by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
