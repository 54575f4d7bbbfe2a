package view

import (
	"encoding/json"
	"slices"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// TopicBody is the projection of one conversation.
type TopicBody struct {
	ID      model.TopicID     `json:"id"`
	Status  model.TopicStatus `json:"status" enum:"pending,streaming,awaiting-approval,done,aborted,error"`
	Version int64             `json:"version" doc:"Grows by one with each change."`
	Turns   []TopicTurn       `json:"turns" doc:"The turns that have not ended, oldest first."`
	// Both are message ids, in the order of their turns.
	ActiveExecutions        []model.MessageID `json:"activeExecutions" doc:"Messages that stream or whose tools run."`
	AwaitingApprovalAnchors []model.MessageID `json:"awaitingApprovalAnchors" doc:"Messages that wait for a person."`
}

// TopicTurn is a turn's standing within its topic.
type TopicTurn struct {
	ID            model.TurnID    `json:"id"`
	State         model.TurnState `json:"state"`
	MessageID     model.MessageID `json:"messageId"`
	OpenApprovals int             `json:"openApprovals"`
	OpenCalls     int             `json:"openCalls"`
}

// Topic is the projection as JSON: what Redis keeps and what is answered.
func Topic(v store.TopicView) json.RawMessage { return encode(NewTopicBody(v)) }

// NewTopicBody is the projection of a topic that was read with its turns.
func NewTopicBody(v store.TopicView) TopicBody {
	b := TopicBody{
		ID: v.ID, Status: v.Status(), Version: v.Version,
		Turns: []TopicTurn{}, ActiveExecutions: []model.MessageID{}, AwaitingApprovalAnchors: []model.MessageID{},
	}
	for _, t := range v.Turns {
		b.Turns = append(b.Turns, TopicTurn{t.ID, t.State, t.Message, t.OpenApprovals, t.OpenCalls})
		switch t.State {
		case model.TurnStreaming, model.TurnExecuting:
			b.ActiveExecutions = addOnce(b.ActiveExecutions, t.Message)
		case model.TurnAwaitingApproval, model.TurnNeedsAttention:
			b.AwaitingApprovalAnchors = addOnce(b.AwaitingApprovalAnchors, t.Message)
		}
	}
	return b
}

func addOnce(list []model.MessageID, id model.MessageID) []model.MessageID {
	if slices.Contains(list, id) {
		return list
	}
	return append(list, id)
}
