package console

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
)

// say writes a person's message into a topic, a new one if none is named; the
// chat backend answers there.
func (c *Console) say(w http.ResponseWriter, r *http.Request, p model.Principal) {
	if !c.Chat || !p.Has(model.RoleBackend) {
		http.NotFound(w, r)
		return
	}
	topic := model.TopicID(r.PostFormValue("topic"))
	text := strings.ReplaceAll(strings.TrimSpace(r.PostFormValue("text")), "\r\n", "\n")
	if topic == "" {
		token := model.NewToken()
		topic = model.TopicID("chat-" + token[len(token)-12:]) // its random end
	}
	if text == "" {
		http.Redirect(w, r, topicURL(topic), http.StatusSeeOther)
		return
	}
	if model.CheckID(string(topic)) != nil || !utf8.ValidString(text) {
		c.show(w, r, p, "", http.StatusUnprocessableEntity, refusal("The message was not taken: it is not UTF-8, or the conversation's name cannot be one."))
		return
	}
	raw, err := strictjson.Marshal(userMessage{model.NewMessageID(), "user", []textPart{{"text", text}}, origin{"page", person(p)}})
	if err == nil {
		_, err = c.UseCases.AppendMessages(r.Context(), approval.Origin{By: p, Channel: channel}, topic,
			approval.MessagesRequest{Messages: []strictjson.Raw{raw}})
	}
	switch {
	case err == nil:
		http.Redirect(w, r, topicURL(topic), http.StatusSeeOther)
	case errors.Is(err, model.ErrTurnOpen):
		c.show(w, r, p, topic, http.StatusConflict, refusal("The model waits for an answer in this conversation; answer its card first."))
	case errors.Is(err, model.ErrInvalid):
		c.show(w, r, p, topic, http.StatusUnprocessableEntity, refusal("The message was not taken: "+visible.Line(err.Error())))
	default:
		c.fail(w, err)
	}
}

type userMessage struct {
	ID    model.MessageID `json:"id"`
	Role  string          `json:"role"`
	Parts []textPart      `json:"parts"`
	// Metadata tells a chat backend that a person is there who expects an answer.
	Metadata origin `json:"metadata"`
}

type origin struct {
	WrittenOn string `json:"writtenOn"`
	Person    string `json:"person,omitzero"`
}

// person is the name of the person that a principal is, or "".
func person(p model.Principal) string {
	name, _ := strings.CutPrefix(p.Subject, "user:")
	if !p.OnBehalf {
		return ""
	}
	return name
}

type textPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
