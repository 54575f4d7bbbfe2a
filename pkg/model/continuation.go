package model

import "time"

// ContinuationState is the state of a turn's continuation.
type ContinuationState string

// The states of a continuation.
const (
	ContinuationReady      ContinuationState = "ready"
	ContinuationDispatched ContinuationState = "dispatched"
	ContinuationAccepted   ContinuationState = "accepted"
	ContinuationFailed     ContinuationState = "failed"
	ContinuationSuperseded ContinuationState = "superseded"
)

// DeadLetterAfter is how long delivery is tried before a person must look.
const DeadLetterAfter = 24 * time.Hour

// Continuation is the one dispatch that lets the conversation go on after a
// turn. It has no id of its own: one per turn (I2), so its turn names it.
type Continuation struct {
	State      ContinuationState
	Generation int // grows when the turn that accepted it died without a committed call
	ReadyAt    time.Time
	AcceptedBy TurnID
	Changed    bool
}

// SinkType is where a continuation goes.
type SinkType string

// The sinks. None means that the backend polls; model is the built-in model
// loop, which a worker runs.
const (
	SinkNone      SinkType = "none"
	SinkWebhook   SinkType = "webhook"
	SinkJetStream SinkType = "jetstream"
	SinkModel     SinkType = "model"
)

// DefaultAcceptWithin is how long a delivered continuation may stay
// unaccepted before it is delivered again.
const DefaultAcceptWithin = 10 * time.Minute

// Sink is where a turn's continuation goes.
type Sink struct {
	Type         SinkType
	URL          string // of a webhook
	Name         string // of a JetStream sink
	AcceptWithin time.Duration
	Ask          Ask // of the model loop
}

// Ask is what a turn says about how the model loop goes on from it, and what
// every turn that the loop makes hands on. What is not said, the worker's
// settings say.
type Ask struct {
	Model  string   `json:"model,omitempty"`  // as the provider names it
	System string   `json:"system,omitempty"` // the system prompt
	Tools  []string `json:"tools,omitempty"`  // of the registry, those that the model may call; none named: all
}
