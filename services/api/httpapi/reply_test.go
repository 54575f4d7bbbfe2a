package httpapi

import (
	"net/http"
	"testing"
)

// A message that wants a reply is a continuation at once: a backend accepts
// it, and its answer is a message of its own.
func TestAReplyIsAskedForAndGiven(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const messages = `/v1/topics/chat/messages`
	body := `{"messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"Hello"}]}],"reply":true}`
	asked := s.post(messages, body).want(http.StatusCreated).is("topic.status", "pending").is("topic.turns.0.state", "continuing")
	turn := asked.text("reply")
	s.post(messages, body).want(http.StatusOK).is("reply", turn).is("topic.version", 1)
	s.get("/v1/continuations?state=ready").want(http.StatusOK).is("items.0.id", turn).is("items.0.messageId", "u1")
	s.get("/v1/turns/"+turn).want(http.StatusOK).is("reply", true).is("messageId", "u1").is("continuation.state", "ready")
	s.post("/v1/topics/chat/turns", `{"continues":"`+turn+`","parts":[{"type":"text","text":"Hello yourself."}]}`).
		want(http.StatusCreated).is("message.id", "msg_"+turn).is("message.parts.1.text", "Hello yourself.").is("topic.status", "done")
	s.get(messages).want(http.StatusOK).is("items.0.parts.0.text", "Hello").is("items.1.id", "msg_"+turn).is("items.2", nil)

	s.post(messages, `{"messages":[{"id":"s","role":"system","parts":[{"type":"text","text":"Be kind."}]}],"reply":true}`).
		problem(http.StatusUnprocessableEntity, "invalid").is("errors.0.pointer", "/reply")
	s.post(messages, `{"messages":[{"id":"u2","role":"user","parts":[{"type":"text","text":"Hi"}]}],"sink":{"type":"none"}}`).
		problem(http.StatusUnprocessableEntity, "invalid").is("errors.0.pointer", "/sink")
}
