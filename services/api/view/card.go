package view

import (
	"encoding/hex"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// Card is what a person sees of an approval: exactly what would run.
type Card struct {
	ID            model.ApprovalID    `json:"id"`
	State         model.ApprovalState `json:"state" enum:"requested,approved,denied,expired,lapsed,cancelled,superseded"`
	Topic         model.TopicID       `json:"topic"`
	Turn          model.TurnID        `json:"turn"`
	MessageID     model.MessageID     `json:"messageId"`
	CallID        model.CallID        `json:"callId"`
	ToolCallID    string              `json:"toolCallId"`
	Tool          CardTool            `json:"tool"`
	Input         strictjson.Raw      `json:"input" doc:"The exact input that would run."`
	OriginalInput strictjson.Raw      `json:"originalInput,omitzero" doc:"The model's own input, where a person changed it."`
	Digest        string              `json:"digest" doc:"Binds an answer to what was shown; hex."`
	Version       int64               `json:"version" doc:"The topic's version at the turn's last change."`
	RequestedBy   string              `json:"requestedBy"`
	RequestedAt   time.Time           `json:"requestedAt"`
	ExpiresAt     time.Time           `json:"expiresAt"`
	Rule          Rule                `json:"rule"`
	ApprovedBy    []string            `json:"approvedBy,omitzero" doc:"Who has approved it as it stands, while more approvers are needed."`
	Reason        string              `json:"reason,omitzero" doc:"Why it was closed without a verdict."`
	Repeats       *Earlier            `json:"possibleDuplicateOf,omitzero" doc:"An earlier call of the topic with the same tool and input whose outcome is, or once was, unknown: approving may do the same thing twice."`
	Decision      *Verdict            `json:"decision"`
}

// CardTool is the tool that a card is about.
type CardTool struct {
	Name       string         `json:"name"`
	Server     string         `json:"server,omitzero"`
	Effect     model.Effect   `json:"effect" enum:"read,idempotent,keyed,unsafe"`
	Definition strictjson.Raw `json:"definition,omitzero" doc:"The definition that the answer is bound to, without secrets. Absent for a tool that nobody defined."`
}

// Rule says who may answer and how many must.
type Rule struct {
	Policies  []string  `json:"policies"`
	Quorum    int       `json:"quorum"`
	FourEyes  bool      `json:"fourEyes,omitzero"`
	Approvers *[]string `json:"approvers,omitzero" doc:"Absent: anybody who may approve. Empty: nobody."`
}

// Verdict is the decision that stands.
type Verdict struct {
	Approved  bool      `json:"approved"`
	Reason    string    `json:"reason,omitzero"`
	DecidedBy string    `json:"decidedBy"`
	DecidedAt time.Time `json:"decidedAt"`
	Channel   string    `json:"channel,omitzero"`
}

// NewCard shows a card.
func NewCard(c store.Card) Card {
	call, a := c.Call, c.Call.Approval
	v := Card{
		ID: a.ID, State: a.State, Topic: c.Topic, Turn: c.Turn, MessageID: c.Message, CallID: call.ID, ToolCallID: call.ToolCallID,
		Tool:  CardTool{call.Tool.Name, call.Tool.Server, call.Tool.Effect, strictjson.Raw(c.Definition)},
		Input: strictjson.Raw(c.Input), Digest: hex.EncodeToString(call.Digest), Version: c.Version,
		RequestedBy: c.RequestedBy, RequestedAt: utc(a.RequestedAt), ExpiresAt: utc(a.ExpiresAt), Rule: newRule(a),
		Repeats: newEarlier(c.Earlier),
	}
	if call.Edited {
		v.OriginalInput = strictjson.Raw(c.Original)
	}
	switch a.State {
	case model.ApprovalRequested:
		v.ApprovedBy = c.Approvers
	case model.ApprovalApproved, model.ApprovalDenied:
		v.Decision = &Verdict{a.State == model.ApprovalApproved, a.Reason, a.DecidedBy, utc(a.DecidedAt), a.Channel}
	default:
		v.Reason = a.Reason
	}
	return v
}

func newRule(a *model.Approval) Rule {
	r := Rule{Policies: a.Policies, Quorum: max(a.Rule.Quorum, 1), FourEyes: a.Rule.FourEyes}
	if a.Rule.Restricted {
		approvers := append([]string{}, a.Rule.Approvers...)
		r.Approvers = &approvers
	}
	return r
}
