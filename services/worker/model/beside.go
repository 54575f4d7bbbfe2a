package model

import (
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// beside are the messages in which other models answer what a message was
// asked to answer. Its model is not told of them: each answers by itself. What
// a backend began unasked answers the person's message before it.
func beside(messages []store.Message, own model.MessageID) map[model.MessageID]bool {
	asked := map[model.TurnID]model.MessageID{} // by the turns that ask for replies
	answers := map[model.MessageID]model.MessageID{}
	var last, mine model.MessageID
	for _, m := range messages {
		switch {
		case m.Role == "user":
			last = m.ID
			for _, t := range m.Turns {
				asked[t.ID] = m.ID
			}
		case len(m.Turns) > 0 && m.Turns[0].Continues != "":
			answers[m.ID] = asked[m.Turns[0].Continues]
			if m.ID == own {
				mine = answers[own]
			}
		default:
			answers[m.ID] = last
		}
	}
	out := map[model.MessageID]bool{}
	for id, to := range answers {
		out[id] = id != own && mine != "" && to == mine
	}
	return out
}
