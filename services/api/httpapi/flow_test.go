package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

func TestACallIsRegisteredDecidedRunByItsCallerAndContinued(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.post("/v1/topics/chat-1/messages", `{"messages":[{"id":"u1","role":"user","parts":[{"type":"text","text":"clean up"}]}]}`).
		want(http.StatusCreated).is("topic.version", 1).is("messages.0.id", "u1")
	turn := s.post("/v1/topics/chat-1/turns", `{"messageId":"msg_1","requestedBy":"user:alice","executor":"caller",
		"parts":[{"type":"text","text":"I will."},`+toolPart("delete_file", "call_1", `{ "path" : "old.log", "n": 1e400 }`)+`]}`).
		want(http.StatusCreated)
	turn.is("topic.status", "awaiting-approval").is("topic.awaitingApprovalAnchors.0", "msg_1").is("turn.state", "awaiting-approval")
	turn.is("message.parts.0.type", "step-start").is("message.parts.2.state", "approval-requested").is("turn.calls.0.executor", "caller")
	approval, id, call := turn.text("turn.calls.0.approvalId"), turn.text("turn.id"), turn.text("turn.calls.0.id")

	card := s.get("/v1/approvals/"+approval).want(http.StatusOK).is("state", "requested").is("requestedBy", "user:alice").is("decision", nil)
	var shown struct{ Input json.RawMessage }
	if err := json.Unmarshal(card.body, &shown); err != nil || string(shown.Input) != `{ "path" : "old.log", "n": 1e400 }` {
		t.Errorf("the card shows %s (%v)", shown.Input, err)
	}
	s.get("/v1/approvals?state=requested&topic=chat-1").want(http.StatusOK).is("items.0.id", approval).is("nextCursor", nil)

	waited := make(chan result)
	go func() { waited <- s.get("/v1/approvals/" + approval + "?wait=30s") }()
	decided := s.do(as(http.MethodPost, "/v1/approvals/"+approval+"/decision",
		`{"approved":true,"reason":"fine","digest":"`+card.text("digest")+`","decisionId":"d1"}`, "people", "user:bob")).want(http.StatusOK)
	decided.is("result", "applied").is("approval.state", "approved").is("approval.decision.decidedBy", "user:bob").is("turn.state", "executing")
	decided.is("topic.status", "pending").is("approval.decision.channel", "api")
	if got := <-waited; got.text("state") != "approved" {
		t.Errorf("waiting gave %s", got.body)
	}

	claim := s.post("/v1/calls/"+call+"/claim", `{"claimId":"k1"}`).want(http.StatusOK).is("fence", 1)
	again := s.post("/v1/calls/"+call+"/claim", `{"claimId":"k1"}`).want(http.StatusOK)
	if again.text("token") != claim.text("token") || again.text("leaseUntil") != claim.text("leaseUntil") {
		t.Errorf("the same claim again: %s, then %s", claim.body, again.body)
	}
	s.post("/v1/calls/"+call+"/claim", `{"claimId":"k2"}`).problem(http.StatusConflict, "not-claimable").is("state", "started")
	s.post("/v1/calls/"+call+"/heartbeat", `{"fence":1,"token":"`+claim.text("token")+`"}`).want(http.StatusOK).is("cancel", false)
	s.post("/v1/calls/"+call+"/heartbeat", `{"fence":1,"token":"x"}`).problem(http.StatusConflict, "fence-lost")
	ended := s.post("/v1/calls/"+call+"/result", `{"fence":1,"token":"`+claim.text("token")+`","output":{"ok": true}}`).want(http.StatusOK)
	ended.is("call.state", "output-available").is("turn.state", "continuing").is("version", 4)
	s.post("/v1/calls/"+call+"/result", `{"fence":1,"token":"`+claim.text("token")+`","output":{"ok": true}}`).want(http.StatusOK)
	s.post("/v1/calls/"+call+"/result", `{"fence":1,"token":"`+claim.text("token")+`","output":2}`).problem(http.StatusConflict, "result-conflict")
	s.get("/v1/calls/"+call).want(http.StatusOK).is("attempts.0.outcome", "succeeded").is("output.ok", true)

	s.get("/v1/continuations?state=ready").want(http.StatusOK).is("items.0.id", id).is("items.0.sink.type", "none")
	next := s.post("/v1/topics/chat-1/turns", `{"continues":"`+id+`","parts":[{"type":"text","text":"Done."}]}`).want(http.StatusCreated)
	next.is("topic.status", "done").is("message.id", "msg_1").is("message.parts.3.type", "step-start").is("message.parts.2.output.ok", true)
	s.post("/v1/topics/chat-1/turns", `{"continues":"`+id+`","messageId":"m2","parts":[]}`).
		problem(http.StatusConflict, "continuation-accepted").is("turn.continuation.acceptedBy", next.text("turn.id"))
	s.get("/v1/topics/chat-1?minVersion=5").want(http.StatusOK).is("status", "done").is("version", 5)
	s.get("/v1/topics/chat-1/messages").want(http.StatusOK).is("items.0.id", "u1").is("items.1.parts.4.text", "Done.")
}

func as(method, path, body, key, actor string) call {
	return call{key: key, method: method, path: path, body: body, header: map[string]string{"Countersign-Actor": actor}}
}

func TestARevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/keys/guest", `{"roles":["viewer"]}`).want(http.StatusCreated)
	made := s.put("/v1/keys/guest2", `{"roles":["viewer","viewer"]}`).want(http.StatusCreated)
	s.keys["guest"] = made.text("key")
	s.do(call{key: "guest", path: "/v1/topics"}).want(http.StatusOK)
	s.do(call{key: "guest", path: "/v1/keys"}).problem(http.StatusForbidden, "not-permitted")
	s.put("/v1/keys/guest2", `{"roles":["admin"]}`).want(http.StatusOK).is("key", nil)
	s.do(call{key: "guest", path: "/v1/keys"}).want(http.StatusOK)
	s.do(call{method: http.MethodDelete, path: "/v1/keys/guest2"}).want(http.StatusNoContent)
	s.do(call{key: "guest", path: "/v1/topics"}).problem(http.StatusUnauthorized, "unauthenticated")
	s.do(call{key: "nobody", path: "/v1/topics"}).problem(http.StatusUnauthorized, "unauthenticated")
}

func TestWaitingEndsWithItsTime(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1")
	begin := time.Now()
	s.get("/v1/turns/"+turn.text("turn.id")+"?wait=1s").want(http.StatusOK).is("state", "awaiting-approval").is("version", 1)
	if took := time.Since(begin); took < time.Second || took > 10*time.Second {
		t.Errorf("waited %v", took)
	}
	s.get("/v1/turns/" + turn.text("turn.id") + "?wait=30s&after=0").want(http.StatusOK)
}
