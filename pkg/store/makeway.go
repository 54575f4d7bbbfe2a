package store

import "github.com/countersign/countersign/pkg/model"

// OpenTurn names a turn that is in the way of another.
type OpenTurn struct {
	Turn              model.TurnID
	State             model.TurnState
	Message           model.MessageID
	ContinuationState model.ContinuationState
}

// makeWay answers for the turns of a topic that are open: it ends them, or
// says with [model.ErrTurnOpen] which is in the way. Those that are beside it
// never are, and a queued reply is in nobody's way.
func (u *unit) makeWay(topic model.TopicID, while WhileOpen, beside func(*model.Turn) bool) (*OpenTurn, error) {
	if while == WhileOpenParallel || while == WhileOpenQueue {
		return nil, nil
	}
	var inTheWay []*model.Turn
	for _, t := range u.turns {
		if t.Topic == topic && !t.State().Ended() && !beside(t) {
			inTheWay = append(inTheWay, t)
		}
	}
	sortTurns(inTheWay)
	for _, t := range inTheWay {
		if while == WhileOpenSupersede {
			t.End(model.TurnAborted, model.OutcomeSuperseded, model.TextSuperseded, u.now)
			continue
		}
		if t.Queued {
			continue
		}
		open := &OpenTurn{Turn: t.ID, State: t.State(), Message: t.Message}
		if t.Continuation != nil {
			open.ContinuationState = t.Continuation.State
		}
		return open, model.ErrTurnOpen
	}
	return nil, nil
}

// nothingBeside is for what comes after everything else.
func nothingBeside(*model.Turn) bool { return false }

// busy tells whether a turn of the topic is open.
func (u *unit) busy(topic model.TopicID) bool {
	for _, t := range u.turns {
		if t.Topic == topic && !t.State().Ended() {
			return true
		}
	}
	return false
}

// unheld tells whether a topic has open turns that the unit does not hold,
// because they came in before the topic was locked.
func (u *unit) unheld(topic *model.Topic) bool {
	open := 0
	for _, t := range u.turns {
		if t.Topic == topic.ID && !t.State().Ended() {
			open++
		}
	}
	return topic.Counters.Open() != open
}
