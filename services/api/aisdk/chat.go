package aisdk

import (
	"context"
	"fmt"
	"net/http"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
)

// ChatRequest is what a client of the AI SDK posts. What else an application
// puts into it is passed over.
type ChatRequest struct {
	ID        string           `json:"id" doc:"The topic."`
	Messages  []strictjson.Raw `json:"messages,omitzero" doc:"The client's copy of the conversation, of which the last message counts; the rest is never read."`
	Message   strictjson.Raw   `json:"message,omitzero" doc:"The last message alone, instead of all."`
	Trigger   string           `json:"trigger,omitzero" enum:"submit-message,regenerate-message"`
	MessageID string           `json:"messageId,omitzero" doc:"The message that is continued, edited or regenerated."`
	WhileOpen string           `json:"whileOpen,omitzero" enum:"supersede,queue,block" doc:"What becomes of an open turn when a person writes: it is ended (supersede), it is waited for (queue), or the message is refused (block). Absent: as the topic's settings say, supersede by default."`
}

// UseCases is what a client's request comes to; *approval.Service is it.
type UseCases interface {
	AppendMessages(ctx context.Context, from approval.Origin, topic model.TopicID, req approval.MessagesRequest) (store.Appended, error)
	EditMessage(ctx context.Context, from approval.Origin, topic model.TopicID, req approval.MessagesRequest) (store.Appended, error)
	ReplyAgain(ctx context.Context, from approval.Origin, topic model.TopicID, message model.MessageID, whileOpen string) (store.Appended, error)
	Decide(ctx context.Context, from approval.Origin, id model.ApprovalID, req approval.DecisionRequest) (store.Decided, error)
}

// Chat is the AI SDK's endpoint for its clients: each request is done, and
// answered by the stream of the message that it is about.
type Chat struct {
	Cases   UseCases
	Windows *Windows
}

// Post does what a request asks for, and gives the response that tells what
// follows. An error comes before anything is written, unless it says that a
// decision could not be taken: others of the same request may stand then.
func (c *Chat) Post(ctx context.Context, from approval.Origin, sub Subscription, req ChatRequest) (http.HandlerFunc, error) {
	p, err := readPost(req)
	if err != nil {
		return nil, err
	}
	p.Chat, p.from, p.sub = c, from, sub
	if p.last.Role == "assistant" && req.Trigger != regenerate {
		return p.goOn(ctx)
	}
	return p.say(ctx)
}

// The triggers of the AI SDK; absent is the first.
const (
	submit     = "submit-message"
	regenerate = "regenerate-message"
)

// post is one request on its way.
type post struct {
	*Chat
	from approval.Origin
	sub  Subscription
	req  ChatRequest
	raw  strictjson.Raw // the last message
	last clientMessage
	at   string // the pointer to it
}

// clientMessage is what counts of a message in a client's copy.
type clientMessage struct {
	ID    string           `json:"id"`
	Role  string           `json:"role"`
	Parts []strictjson.Raw `json:"parts"`
}

// readPost reads a request, and refuses what makes no sense.
func readPost(req ChatRequest) (*post, error) {
	p := &post{req: req, raw: req.Message, at: "/message"}
	switch n := len(req.Messages); {
	case n == 0 && req.Message == nil && req.Trigger == regenerate && req.MessageID != "":
		return p, nil // a client that sends no history
	case n > 0 && req.Message != nil:
		return nil, approval.NewInvalid("/message", "must not come with messages")
	case n > 0:
		p.raw, p.at = req.Messages[n-1], fmt.Sprintf("/messages/%d", n-1)
	case req.Message == nil:
		return nil, approval.NewInvalid("/messages", "is missing")
	}
	if err := strictjson.Unmarshal(p.raw, &p.last, strictjson.AllowUnknownMembers()); err != nil {
		return nil, approval.NewInvalid(p.at, "is no message of the AI SDK")
	}
	switch {
	case uistream.Poisonous(p.raw):
		return nil, approval.NewInvalid(p.at, "has a member __proto__ or constructor, on which the AI SDK's clients fail")
	case p.last.Role != "user" && p.last.Role != "assistant":
		return nil, approval.NewInvalid(p.at+"/role", "must be user or assistant")
	case req.Trigger != "" && req.Trigger != submit && req.Trigger != regenerate:
		return nil, approval.NewInvalid("/trigger", "must be one of submit-message, regenerate-message")
	case p.last.Role == "user" && req.Trigger != regenerate && req.MessageID != "" && req.MessageID != p.last.ID:
		return nil, approval.NewInvalid("/messageId", "names another message than the last one")
	case p.last.Role == "assistant" && req.Trigger == regenerate && req.MessageID == "":
		return nil, approval.NewInvalid("/messageId", "is missing: which message is to be made anew?")
	}
	if err := model.CheckID(p.last.ID); err != nil {
		return nil, approval.NewInvalid(p.at+"/id", err.Error())
	}
	return p, nil
}

// say does what asks for an answer, and tells that: a person wrote something,
// edited it, or wants another answer.
func (p *post) say(ctx context.Context) (http.HandlerFunc, error) {
	if by := p.from.By; !by.Token && !by.Has(model.RoleBackend) {
		return nil, fmt.Errorf("writing into a conversation needs the role backend: %w", model.ErrNotPermitted)
	}
	while, err := p.whileOpen(ctx)
	if err != nil {
		return nil, err
	}
	out, err := p.ask(ctx, while)
	switch {
	case err != nil:
		return nil, &Refused{err, out.Open}
	case out.Reply == "":
		return nil, fmt.Errorf("the message is in the conversation without a reply: %w", model.ErrMessageConflict)
	}
	return func(w http.ResponseWriter, r *http.Request) { p.Windows.Answer(w, r, p.sub, out.Reply) }, nil
}

// whileOpen is what becomes of open turns: the request says it, or the topic's
// settings do.
func (p *post) whileOpen(ctx context.Context) (string, error) {
	switch while := p.req.WhileOpen; store.WhileOpen(while) {
	case "":
	case store.WhileOpenParallel:
		return "", approval.NewInvalid("/whileOpen", "must be one of supersede, queue, block")
	default:
		return while, nil
	}
	settings, err := p.Windows.Rows.TopicSettings(ctx, p.sub.Topic.Tenant, p.sub.Topic.Topic)
	if settings.WhileOpen == "" {
		settings.WhileOpen = store.WhileOpenSupersede
	}
	return string(settings.WhileOpen), err
}

func (p *post) ask(ctx context.Context, while string) (store.Appended, error) {
	topic, req := p.sub.Topic.Topic, approval.MessagesRequest{Messages: []strictjson.Raw{p.raw}, WhileOpen: while, Reply: true}
	switch named := p.req.MessageID; {
	case p.req.Trigger == regenerate && named != "":
		return p.Cases.ReplyAgain(ctx, p.from, topic, model.MessageID(named), while)
	case p.req.Trigger == regenerate:
		return p.Cases.ReplyAgain(ctx, p.from, topic, model.MessageID(p.last.ID), while)
	case named != "":
		return p.Cases.EditMessage(ctx, p.from, topic, req)
	}
	return p.Cases.AppendMessages(ctx, p.from, topic, req)
}

// Refused is an error of a request, with the turn that is in the way, if one
// is.
type Refused struct {
	Err  error
	Open *store.OpenTurn
}

func (e *Refused) Error() string { return e.Err.Error() }

func (e *Refused) Unwrap() error { return e.Err }
