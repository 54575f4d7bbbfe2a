package httpapi

import (
	"net/http"
	"testing"
)

// What becomes of an open turn when a person writes in a chat is said by the
// post, else by the topic, else it is ended.
func TestATopicSaysWhatBecomesOfItsOpenTurns(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const path = "/v1/topics/t%2F1/settings"
	s.get(path).want(200).is("whileOpen", "supersede")
	set := func(key, body string) call { return call{key: key, method: http.MethodPut, path: path, body: body} }
	s.refuse([]bad{
		{"a word of turns alone", set("", `{"whileOpen":"parallel"}`), 422, "invalid", "/whileOpen"},
		{"no word", set("", `{"whileOpen":7}`), 422, "invalid", "/whileOpen"},
		{"a setting that is none", set("", `{"whileopen":"hunter2"}`), 422, "invalid", "/whileopen"},
		{"by whom may not", set("viewer", `{"whileOpen":"block"}`), 403, "not-permitted", ""},
	})
	s.do(set("backend", `{"whileOpen":"block"}`)).want(200).is("whileOpen", "block")
	s.get(path).want(200).is("whileOpen", "block")
	s.do(call{key: "stranger", path: path}).want(200).is("whileOpen", "supersede")
	s.get("/v1/topics/t%2F1").problem(404, "not-found") // settings make no topic

	s.ask("t/1", "m1")
	says := func(id, more string) call {
		return call{method: http.MethodPost, path: "/api/chat",
			body: `{"id":"t/1","messages":[{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"hi"}]}]` + more + `}`}
	}
	s.refuse([]bad{{"the topic blocks", says("u1", ""), 409, "turn-open", ""}})
	s.chatsOn(says("u1", `,"whileOpen":"queue"`)) // the post's own word counts
	if n := s.number("select count(*) from turns where queued"); n != 1 {
		t.Errorf("%d replies wait", n)
	}
	s.do(set("", `{"whileOpen":"queue"}`)).want(200)
	s.chatsOn(says("u2", ""))
	if n := s.number("select count(*) from turns where queued"); n != 2 {
		t.Errorf("%d replies wait", n)
	}
	s.do(set("", `{}`)).want(200).is("whileOpen", "supersede")
	s.chatsOn(says("u3", ""))
	if n := s.number("select count(*) from approvals where state = 'superseded'"); n != 1 {
		t.Errorf("%d cards are put aside", n)
	}
	if n := s.number("select count(*) from audit where action = 'topic.put' and detail = 't/1'"); n != 3 {
		t.Errorf("%d changes are in the audit", n)
	}
}
