package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// unknown registers a turn with one call, claims it and says that nobody
// knows whether it happened; its attempt cannot be alive any more.
func (s *system) unknown(topic string) (turn, call, token string) {
	s.t.Helper()
	turn, call, token = s.doubt(topic)
	s.outlive(call)
	return turn, call, token
}

func (s *system) doubt(topic string) (turn, call, token string) {
	s.t.Helper()
	asked := s.ask(topic, "m1")
	turn, call = asked.text("turn.id"), asked.text("turn.calls.0.id")
	s.answer("user:bob", asked.text("turn.calls.0.approvalId"), `{"approved":true}`).want(200)
	token = s.post("/v1/calls/"+call+"/claim", `{"claimId":"k"}`).want(200).text("token")
	s.post("/v1/calls/"+call+"/result", `{"fence":1,"token":"`+token+`","unknown":true}`).want(200).is("call.run", "outcome-unknown").is("turn.state", "needs-attention")
	return turn, call, token
}

// outlive lets the time pass in which the attempt may be alive.
func (s *system) outlive(call string) {
	s.t.Helper()
	s.exec("update calls set lease_until = lease_until - interval '1 hour' where call_id = $1", call)
}

// resolve sends a resolution as a person.
func (s *system) resolve(person, call, body string) result {
	s.t.Helper()
	return s.do(as(http.MethodPost, "/v1/calls/"+call+"/resolution", body, "people", person))
}

// The numbers are the rows of the outcome table.

func TestResolve1OnlyWhoMayDecideResolves(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/policies/eyes", `{"tools":["danger"],"action":"ask","fourEyes":true,"approvers":["user:root","user:bob"]}`).want(201)
	_, id, _ := s.unknown("t")
	before := s.rows()
	path, body := "/v1/calls/"+id+"/resolution", `{"outcome":"closed"}`
	s.do(call{key: "backend", method: http.MethodPost, path: path, body: body}).problem(403, "not-permitted")
	s.do(call{key: "viewer", method: http.MethodPost, path: path, body: body}).problem(403, "not-permitted")
	s.resolve("user:eve", id, body).problem(403, "not-permitted")
	s.do(call{key: "nobody", method: http.MethodPost, path: path, body: body}).problem(401, "unauthenticated")
	s.do(call{key: "stranger", method: http.MethodPost, path: path, body: body}).problem(404, "not-found")
	s.resolve("user:bob", "01900000-0000-7000-8000-000000000000", body).problem(404, "not-found")
	s.resolve("user:bob", "no-uuid", body).problem(404, "not-found")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	s.resolve("user:bob", id, body).want(200).is("result", "applied")
}

func TestResolve2TheSameResolutionAgainIsThatOne(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn, id, _ := s.unknown("t")
	before := s.number("select version from topics where topic_id = 't'")
	const body = `{"outcome":"happened","output":{"id": 1.0},"evidence":"it is in the list"}`
	got := s.resolve("user:bob", id, body).want(200).is("result", "applied").is("topic.version", before+1)
	got.is("call.run", "succeeded").is("call.state", "output-available").is("call.resolution.outcome", "happened").is("turn.state", "continuing")
	got.is("call.resolution.resolvedBy", "user:bob").is("call.resolution.channel", "api").is("call.resolution.evidence", "it is in the list")
	got.is("turn.id", turn).is("turn.continuation.state", "ready").is("call.attempts.0.outcome", "unknown").is("call.resolvableAt", nil)
	rows := s.rows()
	s.resolve("user:bob", id, body).want(200).is("result", "already-applied").is("call.resolution.resolvedBy", "user:bob")
	s.resolve("user:eve", id, `{"outcome":"happened","evidence":"me too"}`).want(200).is("result", "already-applied").is("call.resolution.evidence", "it is in the list")
	if after := s.rows(); after != rows {
		t.Errorf("rows were written:\n%s", after)
	}
	if n := s.number("select count(*) from audit where action = 'call.resolved' and actor = 'user:bob by key:people' and channel = 'api' and detail like '%it is in the list%'"); n != 1 {
		t.Errorf("%d records in the audit", n)
	}
}

func TestResolve3TheFirstWordStands(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, id, token := s.unknown("t")
	s.resolve("user:bob", id, `{"outcome":"did-not-happen"}`).want(200).is("call.run", "failed")
	rows := s.rows()
	got := s.resolve("user:eve", id, `{"outcome":"happened","evidence":"I saw it"}`).problem(409, "already-resolved")
	got.is("call.resolution.outcome", "did-not-happen").is("call.resolution.resolvedBy", "user:bob").is("state", "failed")
	if !strings.Contains(got.text("detail"), "user:bob resolved it as did-not-happen at ") {
		t.Errorf("%s", got.body)
	}
	if after := s.rows(); after != rows {
		t.Errorf("rows were written:\n%s", after)
	}
	s.post("/v1/calls/"+id+"/result", `{"fence":1,"token":"`+token+`","output":1}`).problem(409, "result-conflict").is("call.attempts.0.outcome", "refused")

	_, id, token = s.unknown("late")
	s.post("/v1/calls/"+id+"/result", `{"fence":1,"token":"`+token+`","output":1}`).want(200).is("call.run", "succeeded")
	got = s.resolve("user:eve", id, `{"outcome":"closed"}`).problem(409, "already-resolved").is("call.output", 1).is("call.resolution", nil)
	if !strings.Contains(got.text("detail"), "own result") {
		t.Errorf("%s", got.body)
	}
}

func TestResolve4WhatIsNotUnknownIsNotResolved(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	asked := s.ask("t", "m1")
	id := asked.text("turn.calls.0.id")
	s.resolve("user:bob", id, `{"outcome":"closed"}`).problem(409, "not-unknown").is("state", "approval-requested")
	s.answer("user:bob", asked.text("turn.calls.0.approvalId"), `{"approved":true}`).want(200)
	s.resolve("user:bob", id, `{"outcome":"closed"}`).problem(409, "not-unknown").is("state", "queued")
}

func TestResolve5NobodyResolvesWhatMayBeAlive(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, id, _ := s.doubt("t")
	rows := s.rows()
	got := s.resolve("user:bob", id, `{"outcome":"closed"}`).problem(409, "attempt-may-be-alive").is("state", "outcome-unknown")
	wait, err := strconv.Atoi(got.header.Get("Retry-After"))
	if err != nil || wait < 50 || wait > 60 { // the tool's 30 s and the margin of 30 s
		t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
	}
	if at := got.text("resolvableAt"); at == "" || at != got.text("call.resolvableAt") {
		t.Errorf("resolvableAt: %s", got.body)
	}
	asked := s.ask("runs", "m1")
	s.answer("user:bob", asked.text("turn.calls.0.approvalId"), `{"approved":true}`).want(200)
	running := asked.text("turn.calls.0.id")
	s.post("/v1/calls/"+running+"/claim", `{"claimId":"k","lease":"10m"}`).want(200)
	got = s.resolve("user:bob", running, `{"outcome":"closed"}`).problem(409, "attempt-may-be-alive").is("state", "started")
	if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 600 {
		t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
	}
	if after := s.rows(); s.number("select count(*) from calls where resolution <> ''") != 0 {
		t.Errorf("rows were written:\n%s, before:\n%s", after, rows)
	}
	s.outlive(id)
	s.resolve("user:bob", id, `{"outcome":"closed"}`).want(200)
}

// The model is told what is known, and no more; every history passes as a
// UIMessage, and in an ended turn, too.
func TestTheModelIsToldHonestly(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for i, c := range []struct{ body, state, run, says string }{
		{`{"outcome":"happened","output":{"id": 1.0},"evidence":"seen"}`, "output-available", "succeeded", `"output":{"id": 1.0}`},
		{`{"outcome":"happened","evidence":"seen"}`, "output-available", "succeeded", `A person looked and confirmed that the call took effect. Evidence: seen`},
		{`{"outcome":"did-not-happen","evidence":"nothing there"}`, "output-error", "failed", `did not take effect. Evidence: nothing there`},
		{`{"outcome":"closed"}`, "output-error", "closed", `It must not be repeated blindly`},
	} {
		for _, ended := range []bool{false, true} {
			topic := fmt.Sprint("t", i, ended)
			_, id, _ := s.unknown(topic)
			status := "pending"
			if ended {
				s.post("/v1/topics/"+topic+"/cancel", `{}`).want(200)
				s.get("/v1/topics/"+topic+"/messages").want(200).is("items.0.parts.1.errorText", "outcome not known yet")
				status = "aborted"
			} else {
				s.get("/v1/topics/"+topic+"?minVersion=3").is("status", "awaiting-approval") // registered, claimed, unknown
			}
			s.resolve("user:bob", id, c.body).want(200).is("call.run", c.run).is("topic.status", status)
			got := s.get("/v1/topics/"+topic+"/messages").want(200).is("items.0.parts.1.state", c.state)
			if !strings.Contains(string(got.body), c.says) {
				t.Errorf("%s, ended %v: %s", c.body, ended, got.body)
			}
			if n := s.number("select count(*) from continuations where topic_id = $1 and state = 'ready'", topic); (n == 1) == ended {
				t.Errorf("%s, ended %v: %d continuations", c.body, ended, n)
			}
		}
	}
}

func TestResolutionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, id, _ := s.unknown("t")
	with := func(body string) call {
		return as(http.MethodPost, "/v1/calls/"+id+"/resolution", body, "people", "user:bob")
	}
	s.refuse([]bad{
		{"nothing", with(`{}`), 422, "invalid", "/outcome"},
		{"another word", with(`{"outcome":"hunter2"}`), 422, "invalid", "/outcome"},
		{"null", with(`{"outcome":null}`), 422, "invalid", "/outcome"},
		{"happened without evidence", with(`{"outcome":"happened"}`), 422, "invalid", "/evidence"},
		{"happened with an output alone", with(`{"outcome":"happened","output":1}`), 422, "invalid", "/evidence"},
		{"an output of what did not happen", with(`{"outcome":"did-not-happen","output":1}`), 422, "invalid", "/output"},
		{"an output of what is closed", with(`{"outcome":"closed","output":null}`), 422, "invalid", "/output"},
		{"long evidence", with(`{"outcome":"closed","evidence":"` + strings.Repeat("x", 4001) + `"}`), 422, "invalid", "/evidence"},
		{"hidden evidence", with(`{"outcome":"closed","evidence":"a\u202eb"}`), 422, "invalid", "/evidence"},
		{"evidence with NUL", with(`{"outcome":"closed","evidence":"a\u0000b"}`), 422, "invalid", "/evidence"},
		{"an unknown field", with(`{"outcome":"closed","force":true}`), 422, "invalid", "/force"},
		{"twice a name", with(`{"outcome":"closed","outcome":"happened"}`), 400, "malformed-json", "/outcome"},
		{"a doubled name within the output", with(`{"outcome":"happened","evidence":"x","output":{"a":1,"a":2}}`), 400, "malformed-json", "/output/a"},
		{"no JSON", with(`outcome=closed`), 400, "malformed-json", ""},
		{"another method", call{path: "/v1/calls/" + id + "/resolution"}, 405, "method-not-allowed", ""},
	})
	s.resolve("user:bob", id, `{"outcome":"happened","evidence":"x","output":"a\u0000b"}`).want(200).is("call.output", "a\x00b")
}

// A call that may repeat one of unknown outcome carries that on its card, and
// asks although policy allows it.
func TestAPossibleDuplicateSaysSo(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	_, id, _ := s.unknown("t")
	s.put("/v1/policies/free", `{"tools":["danger"],"action":"allow"}`).want(201)
	body := `{"messageId":"m2","executor":"caller","whileOpen":"supersede","parts":[` + toolPart("danger", "c2", `{"a":1}`) + `,` + toolPart("danger", "c3", `{"a":2}`) + `]}`
	got := s.post("/v1/topics/t/turns", body).want(201).is("turn.calls.0.state", "approval-requested").is("turn.calls.1.run", "queued")
	got.is("message.parts.1.state", "approval-requested").is("turn.state", "awaiting-approval")
	card := s.get("/v1/approvals/"+got.text("turn.calls.0.approvalId")).want(200).is("rule.policies.0", "possible duplicate")
	card.is("possibleDuplicateOf.call", id).is("possibleDuplicateOf.run", "outcome-unknown")
	s.resolve("user:bob", id, `{"outcome":"happened","evidence":"seen"}`).want(200)
	s.get("/v1/approvals?topic=t&state=requested").want(200).is("items.0.possibleDuplicateOf.resolution", "happened")
	s.get("/v1/calls/"+got.text("turn.calls.0.id")).want(200).is("possibleDuplicateOf.run", "succeeded")
	s.get("/v1/calls/"+got.text("turn.calls.1.id")).want(200).is("possibleDuplicateOf", nil)
}
