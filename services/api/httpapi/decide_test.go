package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// answer sends a decision as a person.
func (s *system) answer(person, approval, body string) result {
	s.t.Helper()
	return s.do(as(http.MethodPost, "/v1/approvals/"+approval+"/decision", body, "people", person))
}

// The numbers are the rows of the decision table.

func TestDecide1UnknownAndForeignApprovalsLookTheSame(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	before := s.rows()
	const unknown = "01900000-0000-7000-8000-000000000000"
	path := "/v1/approvals/%s/decision"
	a := s.do(call{key: "stranger", method: http.MethodPost, path: fmt.Sprintf(path, approval), body: `{"approved":true}`}).problem(404, "not-found")
	b := s.do(call{key: "stranger", method: http.MethodPost, path: fmt.Sprintf(path, unknown), body: `{"approved":true}`}).problem(404, "not-found")
	if strings.ReplaceAll(string(a.body), approval, "X") != strings.ReplaceAll(string(b.body), unknown, "X") {
		t.Errorf("they differ: %s and %s", a.body, b.body)
	}
	s.answer("user:bob", "no-uuid", `{"approved":true}`).problem(404, "not-found")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
}

func TestDecide2TheSameDecisionIDIsTheSameDecision(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	s.answer("user:bob", approval, `{"approved":true,"decisionId":"d"}`).want(200).is("result", "applied")
	before := s.rows()
	s.answer("user:bob", approval, `{"approved":true,"decisionId":"d"}`).want(200).is("result", "already-applied").is("approval.decision.decidedBy", "user:bob")
	s.answer("user:bob", approval, `{"approved":false,"decisionId":"d"}`).problem(422, "decision-id-reused")
	s.answer("user:eve", approval, `{"approved":true,"decisionId":"d"}`).problem(422, "decision-id-reused")
	other := s.ask("t2", "m1").text("turn.calls.0.approvalId")
	s.answer("user:bob", other, `{"approved":true,"decisionId":"d"}`).problem(422, "decision-id-reused")
	header := as(http.MethodPost, "/v1/approvals/"+approval+"/decision", `{"approved":true}`, "people", "user:bob")
	header.header["Idempotency-Key"] = "d"
	s.do(header).want(200).is("result", "already-applied")
	header.body = `{"approved":true,"decisionId":"e"}`
	s.do(header).problem(422, "invalid").is("errors.0.pointer", "/decisionId")
	if n := s.number("select count(*) from decisions"); n != 1 {
		t.Errorf("%d decisions, before %s", n, before)
	}
}

func TestDecide3OnlyWhoMayAnswers(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/policies/eyes", `{"tools":["danger"],"action":"ask","fourEyes":true,"approvers":["user:alice","user:bob"]}`).want(201)
	approval := s.ask("t", "m1", `,"requestedBy":"user:alice"`).text("turn.calls.0.approvalId")
	path := "/v1/approvals/" + approval + "/decision"
	before := s.rows()
	s.do(call{key: "backend", method: http.MethodPost, path: path, body: `{"approved":true}`}).problem(403, "not-permitted")
	s.do(call{key: "viewer", method: http.MethodPost, path: path, body: `{"approved":true}`}).problem(403, "not-permitted")
	s.do(as(http.MethodPost, path, `{"approved":true}`, "viewer", "user:bob")).problem(403, "not-permitted")
	s.do(as(http.MethodPost, path, `{"approved":true}`, "people", "key:root")).problem(422, "invalid")
	s.answer("user:eve", approval, `{"approved":true}`).problem(403, "not-permitted")
	s.answer("user:alice", approval, `{"approved":true}`).problem(403, "not-permitted")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	s.answer("user:bob", approval, `{"approved":true}`).want(200).is("result", "applied")

	s.put("/v1/policies/eyes", `{"tools":["danger"],"action":"ask","approvers":[]}`).want(200)
	nobody := s.ask("t2", "m1").text("turn.calls.0.approvalId")
	s.answer("user:bob", nobody, `{"approved":true}`).problem(403, "not-permitted")
}

func TestDecide4AClosedCardSaysWhich(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	closed := func(topic, state string, approval string) {
		t.Helper()
		before := s.rows()
		s.answer("user:bob", approval, `{"approved":true}`).problem(410, "approval-closed").is("state", state).is("approval.state", state)
		if after := s.rows(); after != before {
			t.Errorf("%s: rows were written:\n%s", topic, after)
		}
	}
	approval := s.ask("cancelled", "m1").text("turn.calls.0.approvalId")
	s.post("/v1/topics/cancelled/cancel", `{}`).want(200).is("ended", 1).is("topic.status", "aborted")
	closed("cancelled", "cancelled", approval)
	s.post("/v1/topics/cancelled/cancel", `{}`).want(200).is("ended", 0)

	approval = s.ask("superseded", "m1").text("turn.calls.0.approvalId")
	s.ask("superseded", "m2", `,"whileOpen":"supersede"`)
	closed("superseded", "superseded", approval)

	approval = s.ask("lapsed", "m1", `,"hold":{"lease":"60s","onLapse":"deny"}`).text("turn.calls.0.approvalId")
	s.exec("update turns set hold_until = clock_timestamp() where topic_id = 'lapsed'")
	if n := must(s.store.LapseHolds(t.Context()))(t); n != 1 {
		t.Fatalf("%d holds lapsed", n)
	}
	closed("lapsed", "lapsed", approval)

	approval = s.ask("expired", "m1").text("turn.calls.0.approvalId")
	s.exec("update approvals set expires_at = clock_timestamp() where topic_id = 'expired'")
	if n := must(s.store.ExpireApprovals(t.Context()))(t); n != 1 {
		t.Fatalf("%d expired", n)
	}
	closed("expired", "expired", approval)
}

func TestDecide5And6TheFirstVerdictStands(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	s.answer("user:bob", approval, `{"approved":true,"updatedInput":{"a":2}}`).want(200).is("result", "applied").is("approval.input.a", 2).is("approval.originalInput.a", 1)
	before := s.rows()
	s.answer("user:eve", approval, `{"approved":true}`).want(200).is("result", "already-applied").is("approval.decision.decidedBy", "user:bob")
	s.answer("user:eve", approval, `{"approved":true,"updatedInput":{"a":2}}`).want(200).is("result", "already-applied")
	s.answer("user:eve", approval, `{"approved":false}`).problem(409, "already-decided").is("approval.decision.approved", true).is("approval.decision.decidedBy", "user:bob")
	s.answer("user:eve", approval, `{"approved":true,"updatedInput":{"a":3}}`).problem(409, "already-decided")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
}

func TestDecide7ADecisionAfterTheDeadlineExpiresTheCard(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1")
	approval := turn.text("turn.calls.0.approvalId")
	s.exec("update approvals set expires_at = clock_timestamp()")
	s.answer("user:bob", approval, `{"approved":true}`).problem(410, "approval-closed").is("state", "expired")
	s.get("/v1/turns/"+turn.text("turn.id")).want(200).is("state", "continuing").is("calls.0.state", "output-denied").is("calls.0.outcome", "expired")
	s.get("/v1/continuations").want(200).is("items.0.state", "ready")
}

func TestDecide8AnAnswerToAnotherCardIsRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	before := s.rows()
	stale := strings.Repeat("ab", 32)
	s.answer("user:bob", approval, `{"approved":true,"digest":"`+stale+`"}`).problem(412, "card-stale").is("approval.state", "requested").is("approval.input.a", 1)
	s.answer("user:bob", approval, `{"approved":true,"digest":"abc"}`).problem(422, "invalid").is("errors.0.pointer", "/digest")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	digest := s.get("/v1/approvals/" + approval).text("digest")
	s.answer("user:bob", approval, `{"approved":true,"digest":"`+strings.ToUpper(digest)+`"}`).want(200)
}

func TestDecide9And10AQuorumCountsPeople(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/policies/two", `{"tools":["danger"],"action":"ask","quorum":2}`).want(201)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	first := s.answer("user:bob", approval, `{"approved":true}`).want(200)
	first.is("result", "recorded").is("stillNeeded", 1).is("approval.approvedBy.0", "user:bob").is("approval.state", "requested").is("approval.rule.quorum", 2)
	s.answer("user:bob", approval, `{"approved":true}`).want(200).is("result", "recorded").is("stillNeeded", 1)
	s.answer("user:eve", approval, `{"approved":true}`).want(200).is("result", "applied").is("turn.state", "executing")
}

func TestAnEditIsCheckedAgainstSchemaAndPolicies(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/tools/danger", `{"executor":"caller","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}`).want(201)
	approval := s.ask("t", "m1").text("turn.calls.0.approvalId")
	before := s.rows()
	s.answer("user:bob", approval, `{"approved":true,"updatedInput":{"a":"secret"}}`).problem(422, "invalid").is("errors.0.pointer", "/updatedInput/a")
	s.answer("user:bob", approval, `{"approved":false,"updatedInput":{"a":1}}`).problem(422, "invalid").is("errors.0.pointer", "/updatedInput")
	s.answer("user:bob", approval, `{"reason":"why"}`).problem(422, "invalid").is("errors.0.pointer", "/approved")
	s.answer("user:bob", approval, `{"approved":null}`).problem(422, "invalid").is("errors.0.pointer", "/approved")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	s.put("/v1/policies/no", `{"tools":["danger"],"action":"deny"}`).want(201)
	s.answer("user:bob", approval, `{"approved":true,"updatedInput":{"a":5}}`).problem(422, "invalid").is("errors.0.pointer", "/updatedInput")
	s.do(call{method: http.MethodDelete, path: "/v1/policies/no"}).want(204)
	s.answer("user:bob", approval, `{"approved":true,"updatedInput":{"a":5}}`).want(200)
}

func TestAnEditIsToldToTheNextStep(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1")
	s.answer("user:bob", turn.text("turn.calls.0.approvalId"), `{"approved":true,"updatedInput":{"a":2}}`).want(200)
	id := turn.text("turn.calls.0.id")
	claim := s.post("/v1/calls/"+id+"/claim", `{"claimId":"k"}`).want(200).is("input.a", 2)
	s.post("/v1/calls/"+id+"/result", `{"fence":1,"token":"`+claim.text("token")+`","errorText":"no"}`).want(200).is("call.state", "output-error")
	s.get("/v1/continuations").want(200).is("items.0.notes.0.toolCallId", "c1")
	next := s.post("/v1/topics/t/turns", `{"continues":"`+turn.text("turn.id")+`","parts":[{"type":"text","text":"Hm."}]}`).want(201)
	next.is("message.parts.2.type", "step-start").is("message.parts.3.type", "data-countersign-note").is("message.parts.3.data.toolCallId", "c1")
	next.is("message.parts.4.text", "Hm.")
}

func TestABatchAnswersEachOfItsItems(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	a, b := s.ask("a", "m1").text("turn.calls.0.approvalId"), s.ask("b", "m1").text("turn.calls.0.approvalId")
	got := s.do(as(http.MethodPost, "/v1/decisions", fmt.Sprintf(`{"decisions":[{"approvalId":%q,"approved":true},
		{"approvalId":%q,"approved":false},{"approvalId":%q,"approved":false},{"approvalId":"x","approved":true},{"approvalId":%q}]}`, a, b, a, b),
		"people", "user:bob")).want(200)
	got.is("items.0.status", 200).is("items.0.result", "applied").is("items.0.approvalId", a)
	got.is("items.1.status", 200).is("items.1.approval.state", "denied").is("items.1.topic.id", "b")
	got.is("items.2.status", 409).is("items.2.type", "/problems/already-decided").is("items.2.approval.decision.approved", true)
	got.is("items.3.status", 404).is("items.3.type", "/problems/not-found")
	got.is("items.4.status", 422).is("items.4.errors.0.pointer", "/approved")
	s.post("/v1/decisions", `{"decisions":[]}`).problem(422, "invalid")
}
