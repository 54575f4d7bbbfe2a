package view

import (
	"encoding/hex"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// Call is one tool call.
type Call struct {
	ID         model.CallID     `json:"id"`
	Topic      model.TopicID    `json:"topic"`
	Turn       model.TurnID     `json:"turn"`
	MessageID  model.MessageID  `json:"messageId"`
	ToolCallID string           `json:"toolCallId"`
	Tool       string           `json:"tool"`
	Effect     model.Effect     `json:"effect"`
	Executor   model.Executor   `json:"executor" enum:"worker,caller"`
	State      model.CallState  `json:"state"`
	Run        model.RunState   `json:"run,omitzero" doc:"queued, started, stopped, succeeded, failed, outcome-unknown, closed; absent while it may not run."`
	Outcome    model.Outcome    `json:"outcome,omitzero"`
	ErrorText  string           `json:"errorText,omitzero"`
	AllowedBy  string           `json:"allowedBy,omitzero" doc:"The policy, or default, that let it run without asking."`
	ApprovalID model.ApprovalID `json:"approvalId,omitzero"`
	Digest     string           `json:"digest"`
	Edited     bool             `json:"edited,omitzero"`
	Fence      int64            `json:"fence,omitzero" doc:"The number of the last attempt."`
	LeaseUntil time.Time        `json:"leaseUntil,omitzero"`
	Resolvable time.Time        `json:"resolvableAt,omitzero" doc:"Of a run whose outcome is unknown: from when a person can resolve it."`
	Resolution *Resolution      `json:"resolution,omitzero" doc:"What a person found out about an outcome that nobody knew."`
	Repeats    *Earlier         `json:"possibleDuplicateOf,omitzero" doc:"An earlier call of the topic with the same tool and input whose outcome is, or once was, unknown."`
	QueuedAt   time.Time        `json:"queuedAt,omitzero"`
	Output     strictjson.Raw   `json:"output,omitzero" doc:"Of one call, not in lists."`
	Attempts   []Attempt        `json:"attempts,omitzero" doc:"Of one call, not in lists."`
}

// Resolution is a person's word on a run whose outcome nobody knew.
type Resolution struct {
	Outcome    model.ResolutionOutcome `json:"outcome" enum:"happened,did-not-happen,closed"`
	Evidence   string                  `json:"evidence,omitzero"`
	ResolvedBy string                  `json:"resolvedBy"`
	ResolvedAt time.Time               `json:"resolvedAt"`
	Channel    string                  `json:"channel,omitzero"`
}

// Earlier is a call that another may repeat, as it stands now.
type Earlier struct {
	Call       model.CallID            `json:"call"`
	State      model.CallState         `json:"state"`
	Run        model.RunState          `json:"run"`
	Resolution model.ResolutionOutcome `json:"resolution,omitzero" enum:"happened,did-not-happen,closed" doc:"What a person found out about it."`
}

// newEarlier shows a call that another may repeat; nil is none.
func newEarlier(e *store.Earlier) *Earlier {
	if e == nil {
		return nil
	}
	return &Earlier{e.Call, e.State, e.Run, e.Resolution}
}

// Attempt is one try to run a call.
type Attempt struct {
	Fence      int64     `json:"fence"`
	Worker     string    `json:"worker,omitzero"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Outcome    string    `json:"outcome,omitzero" doc:"succeeded, failed, unknown, nothing-sent, lease-lost, refused (its result came after a person had resolved the call); absent while it runs."`
	Detail     string    `json:"detail,omitzero"`
}

// NewCall shows a call.
func NewCall(c store.CallView) Call {
	v := Call{
		ID: c.ID, Topic: c.Topic, Turn: c.Turn, MessageID: c.Message, ToolCallID: c.ToolCallID, Tool: c.Tool.Name,
		Effect: c.Tool.Effect, Executor: c.Tool.Executor, State: c.State, Run: c.Run, Outcome: c.Outcome, ErrorText: c.ErrorText,
		AllowedBy: c.AllowedBy, Digest: hex.EncodeToString(c.Digest), Edited: c.Edited, Fence: c.Fence,
		QueuedAt: utc(c.QueuedAt), Output: strictjson.Raw(c.Output), Repeats: newEarlier(c.Earlier),
	}
	if c.Run == model.RunStarted {
		v.LeaseUntil = utc(c.LeaseUntil)
	}
	if c.Run == model.RunUnknown {
		v.Resolvable = utc(c.ResolvableAt())
	}
	if r := c.Resolution; r != nil {
		v.Resolution = &Resolution{r.Outcome, r.Evidence, r.By, utc(r.At), r.Channel}
	}
	if c.Approval != nil {
		v.ApprovalID = c.Approval.ID
	}
	for _, a := range c.Attempts {
		v.Attempts = append(v.Attempts, Attempt{a.Fence, a.Worker, utc(a.StartedAt), utc(a.FinishedAt), a.Outcome, a.Detail})
	}
	return v
}
