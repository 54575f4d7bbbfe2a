package client

import (
	"encoding/json"
	"time"
)

// Topic is the projection of one conversation.
type Topic struct {
	ID                      string   `json:"id"`
	Status                  string   `json:"status"` // pending, streaming, awaiting-approval, done, aborted, error
	Version                 int64    `json:"version"`
	Turns                   []Turn   `json:"turns"`                   // the open ones, without their calls
	ActiveExecutions        []string `json:"activeExecutions"`        // message ids
	AwaitingApprovalAnchors []string `json:"awaitingApprovalAnchors"` // message ids
}

// Turn is one step of the model, the unit that waits and continues.
type Turn struct {
	ID            string     `json:"id"`
	Topic         string     `json:"topic,omitzero"`
	MessageID     string     `json:"messageId,omitzero"`
	State         string     `json:"state"` // streaming, awaiting-approval, executing, needs-attention, continuing, done, aborted, error
	Continues     string     `json:"continues,omitzero"`
	Reply         bool       `json:"reply,omitzero"` // it asks for an answer to its message, a person's
	OpenApprovals int        `json:"openApprovals"`
	OpenCalls     int        `json:"openCalls"`
	Calls         []TurnCall `json:"calls,omitzero"`

	Continuation *TurnContinuation `json:"continuation,omitzero"` // nil: it has none
}

// TurnContinuation is the standing of a turn's continuation.
type TurnContinuation struct {
	State      string `json:"state"` // ready, dispatched, accepted, failed, superseded
	AcceptedBy string `json:"acceptedBy,omitzero"`
}

// TurnCall is a call as its turn lists it.
type TurnCall struct {
	ID         string `json:"id"`
	ToolCallID string `json:"toolCallId"`
	Tool       string `json:"tool"`
	State      string `json:"state"`
	Run        string `json:"run,omitzero"`
	Outcome    string `json:"outcome,omitzero"`
	Executor   string `json:"executor"` // worker, caller
	ApprovalID string `json:"approvalId,omitzero"`
	Digest     string `json:"digest,omitzero"`
}

// Message is one UIMessage of the AI SDK.
type Message struct {
	ID       string          `json:"id"`
	Role     string          `json:"role"` // system, user, assistant
	Parts    []Part          `json:"parts"`
	Metadata json.RawMessage `json:"metadata,omitzero"`
}

// Part is one part of a message, as JSON.
type Part = json.RawMessage

// Sink is where continuations go.
type Sink struct {
	Type         string `json:"type"` // none, webhook, jetstream, model
	URL          string `json:"url,omitzero"`
	Name         string `json:"name,omitzero"`
	AcceptWithin string `json:"acceptWithin,omitzero"` // "10m"

	// Of the model loop; what is left out, the worker's settings say.
	Model  string   `json:"model,omitzero"`
	System string   `json:"system,omitzero"`
	Tools  []string `json:"tools,omitzero"`
}

// Approval is the question put to people about one call: the card.
type Approval struct {
	ID          string          `json:"id"`
	State       string          `json:"state"` // requested, approved, denied, expired, lapsed, cancelled, superseded
	Topic       string          `json:"topic"`
	Turn        string          `json:"turn"`
	MessageID   string          `json:"messageId"`
	CallID      string          `json:"callId"`
	ToolCallID  string          `json:"toolCallId"`
	Tool        ApprovalTool    `json:"tool"`
	Input       json.RawMessage `json:"input"` // exactly what would run
	Digest      string          `json:"digest"`
	Version     int64           `json:"version"` // of the topic
	RequestedBy string          `json:"requestedBy,omitzero"`
	RequestedAt time.Time       `json:"requestedAt"`
	ExpiresAt   time.Time       `json:"expiresAt"`
	Repeats     *Earlier        `json:"possibleDuplicateOf,omitzero"` // a call of unknown outcome that this one may repeat
	Decision    *Verdict        `json:"decision"`
}

// ApprovalTool is the tool that a card is about.
type ApprovalTool struct {
	Name       string          `json:"name"`
	Server     string          `json:"server,omitzero"`
	Effect     string          `json:"effect"` // read, idempotent, keyed, unsafe
	Definition json.RawMessage `json:"definition,omitzero"`
}

// Verdict is the decision that stands.
type Verdict struct {
	Approved  bool      `json:"approved"`
	Reason    string    `json:"reason,omitzero"`
	DecidedBy string    `json:"decidedBy"`
	DecidedAt time.Time `json:"decidedAt"`
	Channel   string    `json:"channel,omitzero"`
}
