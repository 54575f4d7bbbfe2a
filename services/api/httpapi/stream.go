package httpapi

import (
	"context"
	"net/http"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/api/watch"
)

// stream gives a topic's events to the asker until it goes. Its credential is
// looked up again all the while, so that one that was revoked sees nothing
// more. How many may be open is bounded for each key, and for each person.
func (r *request) stream(topic model.TopicID, after int64) func(http.ResponseWriter) error {
	opener := r.by.Key
	if r.by.Token {
		opener = r.by.Subject
	}
	return func(w http.ResponseWriter) error {
		return r.api.Events.Events(w, r.Request, watch.Subscription{
			Topic: r.topicKey(topic), After: after, Key: opener,
			Authorize: r.stillMay(),
		})
	}
}

// admit counts a chat's response as an open stream of its person until the
// request ends. A backend's key may have any number: its people are behind it.
func (r *request) admit() error {
	if !r.by.Token {
		return nil
	}
	leave, err := r.api.Events.Admit(r.by.Subject)
	if err == nil {
		context.AfterFunc(r.Context(), leave)
	}
	return err
}
