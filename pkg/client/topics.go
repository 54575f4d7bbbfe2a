package client

import (
	"context"
	"net/http"
)

// MessagesRequest appends messages of the user or the system.
type MessagesRequest struct {
	Messages  []Message `json:"messages"`
	WhileOpen string    `json:"whileOpen,omitzero"` // block, supersede, parallel; with Reply also queue
	Reply     bool      `json:"reply,omitzero"`     // asks for an answer to the last message
	Sink      *Sink     `json:"sink,omitzero"`      // with Reply: who is to answer; nil is the key's own sink
}

// MessagesAnswer is what follows from appending messages.
type MessagesAnswer struct {
	Topic    Topic     `json:"topic"`
	Messages []Message `json:"messages,omitzero"`
	Reply    string    `json:"reply,omitzero"` // the turn that asks for the reply: open or register the next one with Continues
}

// PostMessages appends messages, and with Reply asks for an answer to the last. It is idempotent by message id; messages
// without one get one here.
//
// Problems: message-conflict, turn-open.
func (c *Client) PostMessages(ctx context.Context, topic string, post MessagesRequest) (MessagesAnswer, error) {
	messages := make([]Message, len(post.Messages))
	for i, message := range post.Messages {
		if message.ID == "" {
			message.ID = "msg_" + newID()
		}
		messages[i] = message
	}
	post.Messages = messages
	return send[MessagesAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "topics", topic, "messages"), body: post, repeat: true,
	})
}

// TopicFilter selects topics; the zero value is all of them.
type TopicFilter struct {
	Paging
	Status string
	IDs    []string
}

// Topics reads a page of projections.
func (c *Client) Topics(ctx context.Context, filter TopicFilter, options ...ReadOption) (Page[Topic], error) {
	query := filter.query("status", filter.Status)
	for _, id := range filter.IDs {
		query.Add("id", id)
	}
	return read[Page[Topic]](ctx, c, "/v1/topics", query, options)
}

// Topic reads one projection. Problem: not-found.
func (c *Client) Topic(ctx context.Context, topic string, options ...ReadOption) (Topic, error) {
	return read[Topic](ctx, c, path("v1", "topics", topic), nil, options)
}

// TopicSettings are what holds for a topic where a request does not say.
type TopicSettings struct {
	WhileOpen string `json:"whileOpen,omitzero"` // when a person writes in a chat: supersede (the default), queue, block
}

// PutTopicSettings replaces a topic's settings; the topic need not exist yet.
func (c *Client) PutTopicSettings(ctx context.Context, topic string, settings TopicSettings) (TopicSettings, error) {
	return put[TopicSettings](ctx, c, path("v1", "topics", topic, "settings"), settings)
}

// TopicSettings reads a topic's settings.
func (c *Client) TopicSettings(ctx context.Context, topic string) (TopicSettings, error) {
	return send[TopicSettings](ctx, c, get(path("v1", "topics", topic, "settings"), nil))
}

// Messages reads committed messages, oldest first.
func (c *Client) Messages(ctx context.Context, topic string, paging Paging, options ...ReadOption) (Page[Message], error) {
	return read[Page[Message]](ctx, c, path("v1", "topics", topic, "messages"), paging.query(), options)
}

// Cancel ends a turn, or with turn "" all open turns of the topic. With
// nothing open it changes nothing.
func (c *Client) Cancel(ctx context.Context, topic, turn string) (CancelAnswer, error) {
	body := struct {
		Turn string `json:"turn,omitzero"`
	}{turn}
	return send[CancelAnswer](ctx, c, request{
		method: http.MethodPost, path: path("v1", "topics", topic, "cancel"), body: body, repeat: true,
	})
}

// CancelAnswer is the topic after a cancel.
type CancelAnswer struct {
	Topic Topic `json:"topic"`
}
