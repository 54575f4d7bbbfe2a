package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

// Step 1 of the nine: what becomes of a call, by tool, policy and input.
func TestEachCallGetsItsVerdict(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	schema := `"inputSchema":{"type":"object","required":["n"]}`
	s.put("/v1/tools/reads", `{"effect":"read","http":{"url":"http://127.0.0.1:1/"}}`).want(201)
	s.put("/v1/tools/writes", `{`+schema+`,"http":{"url":"http://127.0.0.1:1/"}}`).want(201)
	s.put("/v1/tools/allowed", `{"executor":"caller"}`).want(201)
	s.put("/v1/tools/forbidden", `{"executor":"caller"}`).want(201)
	s.put("/v1/policies/a", `{"tools":["allowed"],"action":"allow"}`).want(201)
	s.put("/v1/policies/d", `{"tools":["forbidden"],"action":"deny","reason":"Not on Sundays."}`).want(201)
	parts := strings.Join([]string{
		toolPart("reads", "c0", `{}`), toolPart("writes", "c1", `{"n":1}`), toolPart("writes", "c2", `{}`), toolPart("allowed", "c3", `{}`),
		toolPart("forbidden", "c4", `{}`), toolPart("unknown", "c5", `{}`),
		`{"type":"tool-web","toolCallId":"c6","state":"output-available","input":{},"output":{"x":1},"providerExecuted":true}`,
		`{"type":"tool-old","toolCallId":"c7","state":"output-error","input":{},"errorText":"no"}`,
	}, ",")
	got := s.post("/v1/topics/t/turns", `{"messageId":"m1","parts":[`+parts+`]}`).want(201)
	got.is("turn.openApprovals", 1).is("turn.openCalls", 3).is("turn.state", "awaiting-approval")
	got.is("turn.calls.0.state", "input-available").is("turn.calls.0.run", "queued")
	got.is("turn.calls.1.state", "approval-requested").is("turn.calls.1.run", nil)
	got.is("turn.calls.2.state", "output-error").is("message.parts.3.approval", nil)
	if text := got.text("turn.calls.2.errorText"); !strings.Contains(text, "schema") || !strings.Contains(text, "n") {
		t.Errorf("a schema's violation reads %q", text)
	}
	got.is("turn.calls.3.run", "queued").is("turn.calls.3.executor", "caller")
	got.is("turn.calls.4.state", "output-denied").is("message.parts.5.approval.approved", false)
	got.is("message.parts.5.approval.isAutomatic", true).is("message.parts.5.approval.reason", "Not on Sundays.")
	got.is("turn.calls.5.state", "output-error").is("turn.calls.6", nil).is("message.parts.7.output.x", 1)
	s.get("/v1/calls?state=queued").want(200).is("items.1.tool", "allowed").is("items.1.allowedBy", "a").is("items.2", nil)
	s.get("/v1/calls?state=queued&executor=caller").want(200).is("items.0.tool", "allowed").is("items.1", nil)
}

func TestATurnWhoseCallsAreAllSettledContinuesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.do(one(toolPart("unknown", "c", `{}`))).want(201).is("turn.state", "continuing").is("topic.status", "pending").is("turn.continuation.state", "ready")
	s.post("/v1/topics/text/turns", `{"parts":[{"type":"text","text":"hi"}]}`).want(201).is("turn.state", "done").is("topic.status", "done").is("turn.continuation", nil)
}

func TestTheSameRegistrationAgainIsTheSameTurn(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	body := `{"messageId":"m1","executor":"caller","parts":[` + toolPart("danger", "c1", `{"a":1}`) + `]}`
	first := s.do(register(body)).want(201)
	before := s.rows()
	again := s.do(register(body)).want(200).is("turn.id", first.text("turn.id")).is("message.parts.1.state", "approval-requested")
	if again.text("turn.calls.0.approvalId") != first.text("turn.calls.0.approvalId") {
		t.Error("the call is another")
	}
	s.do(register(strings.Replace(body, `{"messageId"`, `{"whileOpen":"parallel","messageId"`, 1))).want(200)
	s.do(register(strings.Replace(body, `{"a":1}`, `{"a": 1}`, 1))).problem(409, "turn-conflict")
	s.do(register(strings.Replace(body, `"m1"`, `"m2"`, 1))).problem(409, "turn-open").is("turn.id", first.text("turn.id")).is("turn.state", "awaiting-approval")
	s.post("/v1/topics/t/messages", `{"messages":[{"id":"u","role":"user","parts":[{"type":"text","text":"x"}]}]}`).problem(409, "turn-open")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	s.do(register(strings.Replace(body, `"m1"`, `"m2","whileOpen":"supersede"`, 1))).want(201).is("topic.awaitingApprovalAnchors.0", "m2")
	s.do(register(body)).want(200).is("turn.state", "aborted").is("message.parts.1.state", "output-denied")
}

func TestAToolCallIDIsUsedOncePerMessage(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.do(one(toolPart("unknown", "c", `{}`))).want(201)
	next := `{"continues":"` + turn.text("turn.id") + `","parts":[` + toolPart("unknown", "c", `{}`) + `]}`
	s.do(register(next)).problem(422, "invalid").is("errors.0.pointer", "/parts")
	s.do(register(strings.Replace(next, `{"continues"`, `{"messageId":"m2","continues"`, 1))).want(201).is("message.id", "m2")
}

func TestALiveTurnIsOpenedOnceAndFinished(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.do(one(toolPart("unknown", "c", `{}`))).want(201)
	open := `{"continues":"` + turn.text("turn.id") + `","live":true,"lease":"5m"}`
	live := s.do(register(open)).want(201).is("turn.state", "streaming").is("topic.status", "streaming").is("fence", 1)
	s.do(register(open)).problem(409, "continuation-accepted").is("turn.continuation.acceptedBy", live.text("turn.id"))
	finish := "/v1/topics/t/turns/" + live.text("turn.id") + "/finish"
	good := fmt.Sprintf(`{"fence":1,"token":%q,"executor":"caller","parts":[%s]}`, live.text("token"), toolPart("danger", "d", `{}`))
	before := s.rows()
	s.post(finish, strings.Replace(good, live.text("token"), "x", 1)).problem(409, "fence-lost")
	s.post(finish, `{"fence":1,"token":"x"}`).problem(422, "invalid").is("errors.0.pointer", "/parts")
	s.post(finish, `{"fence":1,"token":"x","parts":[],"error":"no"}`).problem(422, "invalid").is("errors.0.pointer", "/error")
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s", after)
	}
	done := s.post(finish, good).want(200).is("turn.state", "awaiting-approval").is("message.parts.3.state", "approval-requested")
	s.post(finish, good).want(200).is("turn.id", done.text("turn.id"))
	s.post(finish, strings.Replace(good, `"d"`, `"e"`, 1)).problem(409, "turn-ended")

	failed := s.post("/v1/topics/f/turns", `{"live":true}`).want(201)
	s.post("/v1/topics/f/turns/"+failed.text("turn.id")+"/finish", fmt.Sprintf(`{"fence":1,"token":%q,"error":"the model is down"}`, failed.text("token"))).
		want(200).is("turn.state", "error").is("topic.status", "error")
}

func TestAHeldTurnsHolderWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1", `,"hold":{"lease":"3s","onLapse":"deny"}`).is("turn.hold.lease", "3s")
	id := turn.text("turn.id")
	waited := make(chan result)
	go func() { waited <- s.get("/v1/turns/" + id + "?wait=30s&after=1") }()
	s.answer("user:bob", turn.text("turn.calls.0.approvalId"), `{"approved":false,"reason":"no"}`).want(200)
	(<-waited).want(200).is("state", "continuing").is("calls.0.state", "output-denied").is("version", 2)
	renewed := s.number("select count(*) from turns where hold_until > clock_timestamp()")
	if renewed != 1 {
		t.Error("waiting did not renew the hold")
	}
	s.do(register(`{"continues":"`+id+`","parts":[{"type":"text","text":"ok"}]}`)).want(201).is("topic.status", "done")
}

// A live turn that fails says why, and its message is the same wherever it is
// shown.
func TestALiveTurnThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	live := s.post("/v1/topics/t/turns", `{"live":true}`).want(201)
	failed := s.post("/v1/topics/t/turns/"+live.text("turn.id")+"/finish",
		fmt.Sprintf(`{"fence":1,"token":%q,"error":"The model is overloaded."}`, live.text("token"))).want(200)
	failed.is("turn.state", "error").is("turn.endReason", "The model is overloaded.").is("message.parts.0.type", "step-start")
	s.get("/v1/turns/"+live.text("turn.id")).want(200).is("endReason", "The model is overloaded.")
}

// What cannot be continued is shown with the reason.
func TestWhatCannotBeContinuedIsShown(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	next := func(topic, turn string) result {
		return s.post("/v1/topics/"+topic+"/turns", `{"parts":[],"messageId":"next","whileOpen":"parallel","continues":"`+turn+`"}`)
	}
	open := s.ask("open", "m1").text("turn.id")
	next("open", open).problem(409, "turn-open").is("turn.id", open).is("turn.openApprovals", 1)
	over := s.post("/v1/topics/over/turns", `{"parts":[{"type":"text","text":"bye"}]}`).want(201).text("turn.id")
	next("over", over).problem(409, "turn-ended").is("turn.id", over).is("turn.state", "done")
}

// Whoever only looks on does not keep a hold whose holder is gone.
func TestLookingOnRenewsNoHold(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1", `,"hold":{"lease":"60s","onLapse":"deny"}`)
	s.exec("update turns set hold_until = clock_timestamp() + interval '9 seconds'")
	for _, key := range []string{"viewer", "people"} {
		for _, path := range []string{"/v1/turns/" + turn.text("turn.id"), "/v1/approvals/" + turn.text("turn.calls.0.approvalId"), "/v1/calls/" + turn.text("turn.calls.0.id")} {
			s.do(call{key: key, path: path + "?wait=100ms"}).want(200)
		}
	}
	if n := s.number("select count(*) from turns where hold_until > clock_timestamp() + interval '10 seconds'"); n != 0 {
		t.Error("a viewer renewed the hold")
	}
}
