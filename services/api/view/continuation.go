package view

import (
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Continuation is the one dispatch that lets a conversation go on after a
// turn. Its id is its turn's.
type Continuation struct {
	ID          model.TurnID            `json:"id"`
	Topic       model.TopicID           `json:"topic"`
	Turn        model.TurnID            `json:"turn"`
	MessageID   model.MessageID         `json:"messageId"`
	State       model.ContinuationState `json:"state" enum:"ready,dispatched,accepted,failed,superseded"`
	Generation  int                     `json:"generation" doc:"Grows when the turn that had accepted it died."`
	Version     int64                   `json:"version"`
	Sink        Sink                    `json:"sink"`
	Deliveries  int                     `json:"deliveries" doc:"Deliveries so far."`
	LastError   string                  `json:"lastError,omitzero"`
	ReadyAt     time.Time               `json:"readyAt"`
	NextAt      time.Time               `json:"nextAt,omitzero" doc:"When it is delivered next, unless it is accepted before."`
	DeliveredAt time.Time               `json:"deliveredAt,omitzero"`
	AcceptedBy  model.TurnID            `json:"acceptedBy,omitzero"`
	Notes       []model.Note            `json:"notes,omitzero" doc:"What the model is to be told: inputs that people changed."`
}

// Sink is where continuations go.
type Sink struct {
	Type         string         `json:"type" enum:"none,webhook,jetstream,model"`
	URL          string         `json:"url,omitzero" doc:"Of a webhook."`
	Name         string         `json:"name,omitzero" doc:"Of a JetStream sink."`
	AcceptWithin model.Duration `json:"acceptWithin,omitzero" doc:"How long a delivered continuation may stay unaccepted before it is delivered again; 10m by default."`
	Model        string         `json:"model,omitzero" doc:"Of the model loop, as are system and tools."`
	System       string         `json:"system,omitzero"`
	Tools        []string       `json:"tools,omitzero"`
}

// NewContinuation shows a continuation.
func NewContinuation(c store.ContinuationView, notes []model.Note) Continuation {
	v := Continuation{
		ID: c.Turn, Topic: c.Topic, Turn: c.Turn, MessageID: c.Message, State: c.State, Generation: c.Generation,
		Version: c.Version, Sink: NewSink(c.Sink), Deliveries: c.Deliveries, LastError: c.LastError, ReadyAt: utc(c.ReadyAt),
		DeliveredAt: utc(c.DeliveredAt), AcceptedBy: c.AcceptedBy, Notes: notes,
	}
	if c.Sink.Type != model.SinkNone && (c.State == model.ContinuationReady || c.State == model.ContinuationDispatched) {
		v.NextAt = utc(c.NextAt)
	}
	return v
}

// NewSink shows a sink.
func NewSink(s model.Sink) Sink {
	return Sink{string(s.Type), s.URL, s.Name, model.Duration(s.AcceptWithin), s.Ask.Model, s.Ask.System, s.Ask.Tools}
}
