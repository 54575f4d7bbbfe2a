package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/api/token"
)

// How long a token is good, and for how many topics.
const (
	tokenTime    = time.Hour
	maxTokenTime = 24 * time.Hour
	maxTopics    = 50
)

// tokenRequest mints a token for a person.
type tokenRequest struct {
	Subject   string   `json:"subject" doc:"The person, such as user:bob: who the audit says it was."`
	Topics    []string `json:"topics" doc:"What it is good for: 1 to 50 topics, which need not exist yet."`
	ExpiresIn string   `json:"expiresIn,omitzero" doc:"1h by default, 24h at most."`
}

// TokenAnswer is a token that was minted.
type TokenAnswer struct {
	Token     string          `json:"token" doc:"Shown as Authorization: Bearer, or as the cookie countersign_token. Never in a URL."`
	Subject   string          `json:"subject"`
	Topics    []model.TopicID `json:"topics"`
	ExpiresAt time.Time       `json:"expiresAt"`
	MayDecide bool            `json:"mayDecide" doc:"Whether its key's tokens may decide now."`
}

func (in tokenRequest) read(by model.Principal) (token.Token, error) {
	c := &checks{}
	if !isPerson(in.Subject) {
		c.add("/subject", "must name a person, such as user:bob")
	}
	if n := len(in.Topics); n == 0 || n > maxTopics {
		c.add("/topics", fmt.Sprintf("must name 1 to %d topics", maxTopics))
	}
	t := token.Token{Tenant: by.Tenant, Key: by.Key, Subject: in.Subject}
	for i, id := range in.Topics {
		c.id(fmt.Sprintf("/topics/%d", i), id)
		if !slices.Contains(t.Topics, model.TopicID(id)) {
			t.Topics = append(t.Topics, model.TopicID(id))
		}
	}
	good := c.duration("/expiresIn", in.ExpiresIn, tokenTime, maxTokenTime)
	t.Expires = time.Now().Add(good).Truncate(time.Second)
	return t, c.err()
}

// mintToken makes a token. The key is read anew: one that was deleted
// elsewhere mints nothing.
func (a *API) mintToken(r *request, in tokenRequest) (answer, error) {
	t, err := in.read(r.by)
	if err != nil {
		return answer{}, err
	}
	minter, err := a.Store.Minter(r.Context(), r.tenant(), r.by.Key)
	if errors.Is(err, model.ErrNotFound) {
		err = errUnauthenticated
	}
	if err != nil {
		return answer{}, err
	}
	text, err := t.Sign(minter.Secret)
	if err != nil {
		return answer{}, err
	}
	if len(text) > token.MaxLength {
		c := &checks{}
		c.add("/topics", fmt.Sprintf("are too long together: a token has at most %d bytes", token.MaxLength))
		return answer{}, c.err()
	}
	return created(true, TokenAnswer{text, t.Subject, t.Topics, t.Expires.UTC(), minter.Decide}), nil
}
