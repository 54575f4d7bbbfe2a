package httpapi

import (
	"slices"

	"github.com/countersign/countersign/pkg/model"
)

// reach says how a route is open to a token, which is good for some topics.
type reach int

const (
	// closed is a route that needs a key, as every one does whose line does
	// not say otherwise.
	closed reach = iota
	// ofPath is a route whose path names a topic, or a turn, a card or a call
	// of one: it is open for what belongs to the token's topics.
	ofPath
	// ofOwn is a route whose handler itself leaves out, or refuses, whatever
	// belongs to other topics.
	ofOwn
)

// mayUse tells whether a credential may use a route at all.
func (r *request) mayUse(rt route) error {
	switch {
	case r.by.Token && rt.tokens == closed:
		return say(model.ErrNotPermitted, "This needs a key: a token is good for reading, following and chatting in its topics.")
	case r.by.Token:
		return nil
	case len(rt.roles) > 0 && !slices.ContainsFunc(rt.roles, r.by.Has):
		return say(model.ErrNotPermitted, "This needs a key with the role "+words(rt.roles)+".")
	}
	return nil
}

// mayReach refuses a token whatever is not of its topics, as if it were not
// there. What something belongs to never changes, so that it is enough to
// look before.
func (r *request) mayReach(rt route) error {
	if !r.by.Token {
		return nil
	}
	if filter := r.param("topic"); filter != "" && !r.by.Sees(model.TopicID(filter)) {
		return model.ErrNotFound
	}
	if rt.tokens != ofPath {
		return nil
	}
	topic, err := r.topicOfPath()
	if err != nil {
		return err
	}
	if !r.by.Sees(topic) {
		return model.ErrNotFound
	}
	return nil
}

// topicOfPath is the topic of whatever the path names. A path that names
// nothing of a topic is an error: it is open to nobody by its path.
func (r *request) topicOfPath() (model.TopicID, error) {
	switch {
	case r.PathValue("topic") != "":
		return model.TopicID(r.PathValue("topic")), nil
	case r.PathValue("turn") != "":
		id, err := idIn[model.TurnID](r, "turn")
		if err != nil {
			return "", err
		}
		t, err := r.api.Store.Turn(r.Context(), r.tenant(), id)
		if err != nil {
			return "", err
		}
		return t.Topic, nil
	case r.PathValue("approval") != "":
		id, err := idIn[model.ApprovalID](r, "approval")
		if err != nil {
			return "", err
		}
		card, err := r.api.Store.Card(r.Context(), r.tenant(), id)
		return card.Topic, err
	case r.PathValue("call") != "":
		id, err := idIn[model.CallID](r, "call")
		if err != nil {
			return "", err
		}
		call, err := r.api.Store.Call(r.Context(), r.tenant(), id)
		return call.Topic, err
	}
	return "", model.ErrNotFound
}

// ownTopics is what lists are narrowed to: nil for a key, which sees all.
func (r *request) ownTopics() []model.TopicID {
	if !r.by.Token {
		return nil
	}
	return append([]model.TopicID{}, r.by.Topics...) // never nil, which would be all
}
