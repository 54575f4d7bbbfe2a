package httpapi

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/aisdk"
)

// The headers by which the writer of a live turn's stream shows that it is.
const (
	fenceHeader = aisdk.FenceHeader
	tokenHeader = "Countersign-Token"
)

// takeChunks takes a live turn's stream in.
func (a *API) takeChunks(r *request) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	turn, err := idIn[model.TurnID](r, "turn")
	if err != nil {
		return answer{}, err
	}
	if err := r.streamType(); err != nil {
		return answer{}, err
	}
	fence, err := strconv.ParseInt(r.Header.Get(fenceHeader), 10, 64)
	token := r.Header.Get(tokenHeader)
	if err != nil || token == "" {
		return answer{}, approval.NewInvalid("", "the headers "+fenceHeader+" and "+tokenHeader+" must be what opening the turn live gave")
	}
	st, err := a.cases.Stream(r.Context(), r.origin(), topic, turn, approval.StreamRequest{
		Fence: fence, Token: token, Executor: r.param("executor"), ExpiresIn: r.param("expiresIn")})
	if err != nil {
		return answer{}, err
	}
	return answer{write: func(w http.ResponseWriter) error { return a.Intake.Take(w, r.Request, st) }}, nil
}

// streamType refuses a body that is no stream of chunks.
func (r *request) streamType() error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	known := kind == "application/x-ndjson" || kind == "text/event-stream"
	if err != nil || !known || encoding != "" && encoding != "identity" {
		return say(errMediaType, "Send chunks as application/x-ndjson or text/event-stream.")
	}
	return nil
}

// chatters may write into a conversation or answer its cards; which of both,
// their roles say.
var chatters = []model.Role{model.RoleBackend, model.RoleApprover}

// chatRoute is the endpoint of the AI SDK's client, whose body may have
// members of an application's own.
func (a *API) chatRoute() route {
	rt := write[aisdk.ChatRequest, nothing](post, "/api/chat", chatters, is200,
		"Chat as the AI SDK's client does: write, answer cards, and follow what comes of it", nil).with("sdk").open(ofOwn)
	rt.serve = a.postChat
	return rt
}

func (a *API) postChat(r *request) (answer, error) {
	var in aisdk.ChatRequest
	if err := r.readBody(&in, strictjson.AllowUnknownMembers()); err != nil {
		return answer{}, err
	}
	version, err := r.sdk()
	if err != nil {
		return answer{}, err
	}
	if err := model.CheckID(in.ID); err != nil {
		return answer{}, approval.NewInvalid("/id", err.Error())
	}
	if !r.by.Sees(model.TopicID(in.ID)) {
		return answer{}, model.ErrNotFound
	}
	if err := r.admit(); err != nil {
		return answer{}, err
	}
	from := r.origin()
	from.Channel = "chat"
	respond, err := a.chat.Post(r.Context(), from, aisdk.Subscription{
		Topic: r.topicKey(model.TopicID(in.ID)), Version: version, Authorize: r.stillMay()}, in)
	if refused, is := errors.AsType[*aisdk.Refused](err); is {
		err = r.explainOpen(err, refused.Open)
	}
	if lost := failpoint.Hit(r.Context(), failpoint.AnswerBefore); lost != nil && err == nil {
		err = lost
	}
	if err != nil {
		return answer{}, err
	}
	return answer{write: func(w http.ResponseWriter) error {
		respond(w, r.Request)
		return nil
	}}, nil
}

// resumeChat gives a window the message that is being written.
func (a *API) resumeChat(r *request) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	version, err := r.sdk()
	if err != nil {
		return answer{}, err
	}
	if err := r.admit(); err != nil {
		return answer{}, err
	}
	return answer{write: func(w http.ResponseWriter) error {
		return a.Windows.Resume(w, r.Request, aisdk.Subscription{Topic: r.topicKey(topic), Version: version, Authorize: r.stillMay()})
	}}, nil
}

// sdk is the AI SDK's version that a client speaks, by ?sdk= or its header.
func (r *request) sdk() (uistream.Version, error) {
	said := r.param("sdk")
	if said == "" {
		said = r.Header.Get("Countersign-AI-SDK")
	}
	version, known := uistream.ParseVersion(said)
	if !known {
		return 0, approval.NewInvalid("?sdk", "must be 6 or 7, the AI SDK's major version")
	}
	return version, nil
}

// stillMay looks a request's credential up again, so that one that was
// revoked, or has expired, sees nothing more.
func (r *request) stillMay() func(context.Context) error {
	return func(context.Context) error {
		_, err := r.api.recognize(r.Request)
		return err
	}
}
