package httpapi

import "github.com/countersign/countersign/pkg/store"

// TopicSettings are what is said of a topic once, for every request that does
// not say it.
type TopicSettings struct {
	WhileOpen string `json:"whileOpen" enum:"supersede,queue,block" doc:"What becomes of an open turn when a person writes by POST /api/chat: it is ended (supersede), it is waited for (queue), or the message is refused (block)."`
}

// settingsRequest is what is to be said; what is absent is back at its default.
type settingsRequest struct {
	WhileOpen string `json:"whileOpen,omitzero" enum:"supersede,queue,block" doc:"supersede by default."`
}

func settingsOf(s store.TopicSettings) TopicSettings {
	if s.WhileOpen == "" {
		s.WhileOpen = store.WhileOpenSupersede
	}
	return TopicSettings{string(s.WhileOpen)}
}

func (a *API) getSettings(r *request) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	settings, err := a.Store.TopicSettings(r.Context(), r.tenant(), topic)
	return ok(settingsOf(settings)), err
}

func (a *API) putSettings(r *request, in settingsRequest) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	c := &checks{}
	to := store.TopicSettings{WhileOpen: store.WhileOpen(c.word("/whileOpen", in.WhileOpen,
		string(store.WhileOpenSupersede), string(store.WhileOpenQueue), string(store.WhileOpenBlock)))}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	return ok(settingsOf(to)), a.Store.PutTopicSettings(r.Context(), r.tenant(), topic, to, r.actor(), r.via)
}
