package view

import (
	"encoding/hex"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// Turn is one step of the model with its calls.
type Turn struct {
	ID            model.TurnID      `json:"id"`
	Topic         model.TopicID     `json:"topic"`
	MessageID     model.MessageID   `json:"messageId"`
	State         model.TurnState   `json:"state" enum:"aborted,error,streaming,awaiting-approval,executing,needs-attention,continuing,done"`
	EndReason     string            `json:"endReason,omitzero" doc:"Why it was ended: cancelled, superseded, or the error's text."`
	Continues     model.TurnID      `json:"continues,omitzero" doc:"The turn whose continuation this one accepted."`
	Reply         bool              `json:"reply,omitzero" doc:"It asks for an answer to its message, a person's, and is no step of the model."`
	RequestedBy   string            `json:"requestedBy,omitzero"`
	Execution     model.Execution   `json:"execution"`
	OpenApprovals int               `json:"openApprovals"`
	OpenCalls     int               `json:"openCalls"`
	Calls         []TurnCall        `json:"calls"`
	Hold          *Hold             `json:"hold,omitzero"`
	LiveUntil     time.Time         `json:"liveUntil,omitzero" doc:"The end of a live turn's lease."`
	Continuation  *TurnContinuation `json:"continuation,omitzero"`
	Version       int64             `json:"version,omitzero" doc:"The topic's version when this was read, or earlier: nothing newer is missing after it."`
}

// TurnCall is a call as its turn lists it.
type TurnCall struct {
	ID         model.CallID     `json:"id"`
	ToolCallID string           `json:"toolCallId"`
	Tool       string           `json:"tool"`
	State      model.CallState  `json:"state"`
	Run        model.RunState   `json:"run,omitzero"`
	Outcome    model.Outcome    `json:"outcome,omitzero"`
	ErrorText  string           `json:"errorText,omitzero"`
	Executor   model.Executor   `json:"executor"`
	ApprovalID model.ApprovalID `json:"approvalId,omitzero"`
	Digest     string           `json:"digest"`
}

// Hold is a live caller's lease on the answers.
type Hold struct {
	Lease   model.Duration `json:"lease"`
	Until   time.Time      `json:"until"`
	OnLapse model.OnLapse  `json:"onLapse"`
}

// TurnContinuation is the standing of a turn's continuation; its id is the
// turn's.
type TurnContinuation struct {
	ID         model.TurnID            `json:"id"`
	State      model.ContinuationState `json:"state"`
	AcceptedBy model.TurnID            `json:"acceptedBy,omitzero"`
}

// NewTurn shows a turn. version may be 0 where it is shown beside its topic.
func NewTurn(t *model.Turn, version int64) Turn {
	v := Turn{
		ID: t.ID, Topic: t.Topic, MessageID: t.Message, State: t.State(), EndReason: t.EndReason, Continues: t.Continues, Reply: t.Reply,
		RequestedBy: t.RequestedBy, Execution: t.Execution, OpenApprovals: t.OpenApprovals, OpenCalls: t.OpenCalls,
		Calls: []TurnCall{}, Version: version,
	}
	for _, c := range t.Calls {
		v.Calls = append(v.Calls, newTurnCall(c))
	}
	if h := t.Hold; h != nil {
		v.Hold = &Hold{model.Duration(h.Lease), utc(h.Until), h.OnLapse}
	}
	if t.Live != nil {
		v.LiveUntil = utc(t.Live.LeaseUntil)
	}
	if c := t.Continuation; c != nil {
		v.Continuation = &TurnContinuation{t.ID, c.State, c.AcceptedBy}
	}
	return v
}

func newTurnCall(c *model.Call) TurnCall {
	v := TurnCall{
		ID: c.ID, ToolCallID: c.ToolCallID, Tool: c.Tool.Name, State: c.State, Run: c.Run, Outcome: c.Outcome,
		Executor: c.Tool.Executor, Digest: hex.EncodeToString(c.Digest),
	}
	if c.State == model.CallOutputError || c.Run == model.RunUnknown {
		v.ErrorText = c.ErrorText
	}
	if c.Approval != nil {
		v.ApprovalID = c.Approval.ID
	}
	return v
}
