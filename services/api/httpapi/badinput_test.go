package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// bad is a request that must be refused with nothing written.
type bad struct {
	name    string
	call    call
	status  int
	problem string
	pointer string // of the first error, where it says one
}

// refuse sends each and looks at the rows before and after.
func (s *system) refuse(cases []bad) {
	s.t.Helper()
	before := s.rows()
	for _, b := range cases {
		got := s.do(b.call)
		if got.status != b.status || got.text("type") != "/problems/"+b.problem {
			s.t.Errorf("%s: %d %s, want %d %s", b.name, got.status, got.body, b.status, b.problem)
			continue
		}
		got.problem(b.status, b.problem)
		if b.pointer != "" && got.text("errors.0.pointer") != b.pointer {
			s.t.Errorf("%s: pointer %q, want %q in %s", b.name, got.text("errors.0.pointer"), b.pointer, got.body)
		}
		if strings.Contains(string(got.body), "hunter2") {
			s.t.Errorf("%s: the answer repeats a value: %s", b.name, got.body)
		}
		if after := s.rows(); after != before {
			s.t.Fatalf("%s: rows were written:\n%s\nbefore:\n%s", b.name, after, before)
		}
	}
}

func register(body string) call {
	return call{method: http.MethodPost, path: "/v1/topics/t/turns", body: body}
}

// one is a turn of one part.
func one(part string) call { return register(`{"messageId":"m1","parts":[` + part + `]}`) }

func TestBodiesThatAreNotStrictJSONAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	good := `{"messageId":"m1","parts":[{"type":"text","text":"hi"}]}`
	typed := func(kind string) call {
		c := register(good)
		c.header = map[string]string{"Content-Type": kind}
		return c
	}
	packed := register(good)
	packed.header = map[string]string{"Content-Encoding": "gzip"}
	s.refuse([]bad{
		{"malformed", register(`{"messageId":hunter2}`), 400, "malformed-json", ""},
		{"empty", call{method: http.MethodPost, path: "/v1/topics/t/turns", header: map[string]string{"Content-Type": "application/json"}}, 400, "malformed-json", ""},
		{"truncated", register(good[:len(good)-4]), 400, "malformed-json", ""},
		{"doubled", register(good + good), 400, "malformed-json", ""},
		{"trailing", register(good + " x"), 400, "malformed-json", ""},
		{"duplicate names", register(`{"messageId":"m1","messageId":"hunter2","parts":[]}`), 400, "malformed-json", "/messageId"},
		{"duplicate names within an input", one(toolPart("x", "c", `{"a":1,"a":2}`)), 400, "malformed-json", "/parts/0/input/a"},
		{"lone surrogate", one(`{"type":"text","text":"\ud800"}`), 400, "malformed-json", ""},
		{"lone surrogate within an input", one(toolPart("x", "c", `"\udfff"`)), 400, "malformed-json", ""},
		{"invalid UTF-8", register("{\"messageId\":\"\xff\",\"parts\":[]}"), 400, "malformed-json", ""},
		{"too deep", one(toolPart("x", "c", strings.Repeat("[", 70)+strings.Repeat("]", 70))), 400, "malformed-json", ""},
		{"comments", register(`{/* */}`), 400, "malformed-json", ""},
		{"byte order mark", register("\ufeff" + good), 400, "malformed-json", ""},
		{"unknown field", register(`{"messageId":"m1","parts":[],"aproved":"hunter2"}`), 422, "invalid", "/aproved"},
		{"another case", register(`{"MessageId":"m1","parts":[]}`), 422, "invalid", "/MessageId"},
		{"wrong type", register(`{"messageId":7,"parts":[]}`), 422, "invalid", "/messageId"},
		{"null", register(`{"messageId":null,"parts":[]}`), 422, "invalid", "/messageId"},
		{"an array", register(`[]`), 422, "invalid", ""},
		{"a string", register(`"hunter2"`), 422, "invalid", ""},
		{"no content type", call{method: http.MethodPost, path: "/v1/topics/t/turns", body: good, header: map[string]string{"Content-Type": ""}}, 415, "unsupported-media-type", ""},
		{"a form", typed("application/x-www-form-urlencoded"), 415, "unsupported-media-type", ""},
		{"text", typed("text/plain"), 415, "unsupported-media-type", ""},
		{"compressed", packed, 415, "unsupported-media-type", ""},
		{"too large", one(`{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}`), 413, "too-large", ""},
	})
	c := register(good)
	c.header = map[string]string{"Content-Type": "application/json; charset=utf-8"}
	s.do(c).want(201)
}

func TestTurnsThatTheSDKCouldNotReadAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	state := func(state, more string) call {
		return one(`{"type":"tool-x","toolCallId":"c","state":"` + state + `","input":{}` + more + `}`)
	}
	s.refuse([]bad{
		{"no parts", register(`{"messageId":"m1"}`), 422, "invalid", "/parts"},
		{"part is no object", one(`7`), 422, "invalid", "/parts/0"},
		{"part is null", one(`null`), 422, "invalid", "/parts/0"},
		{"no type", one(`{}`), 422, "invalid", "/parts/0/type"},
		{"unknown type", one(`{"type":"hunter2"}`), 422, "invalid", "/parts/0/type"},
		{"text without text", one(`{"type":"text"}`), 422, "invalid", "/parts/0/text"},
		{"text of null", one(`{"type":"text","text":null}`), 422, "invalid", "/parts/0/text"},
		{"file without a URL", one(`{"type":"file","mediaType":"text/plain"}`), 422, "invalid", "/parts/0/url"},
		{"a note of ours", one(`{"type":"data-countersign-note","data":{}}`), 422, "invalid", "/parts/0/type"},
		{"tool without a name", one(`{"type":"tool-","toolCallId":"c","state":"input-available","input":{}}`), 422, "invalid", "/parts/0/type"},
		{"dynamic tool without a name", one(`{"type":"dynamic-tool","toolCallId":"c","state":"input-available","input":{}}`), 422, "invalid", "/parts/0/toolName"},
		{"no toolCallId", one(`{"type":"tool-x","state":"input-available","input":{}}`), 422, "invalid", "/parts/0/toolCallId"},
		{"empty toolCallId", one(toolPart("x", "", `{}`)), 422, "invalid", "/parts/0/toolCallId"},
		{"no input", one(`{"type":"tool-x","toolCallId":"c","state":"input-available"}`), 422, "invalid", "/parts/0/input"},
		{"forged approval", state("approval-responded", `,"approval":{"id":"a","approved":true}`), 422, "invalid", "/parts/0/approval"},
		{"approval on a call", state("input-available", `,"approval":{"id":"a"}`), 422, "invalid", "/parts/0/approval"},
		{"approval on a result", state("output-available", `,"output":1,"approval":{"id":"a","approved":true}`), 422, "invalid", "/parts/0/approval"},
		{"asked by the client", state("approval-requested", ``), 422, "invalid", "/parts/0/state"},
		{"denied by the client", state("output-denied", ``), 422, "invalid", "/parts/0/state"},
		{"streaming", state("input-streaming", ``), 422, "invalid", "/parts/0/state"},
		{"unknown state", state("hunter2", ``), 422, "invalid", "/parts/0/state"},
		{"result without output", state("output-available", ``), 422, "invalid", "/parts/0/output"},
		{"error without text", state("output-error", ``), 422, "invalid", "/parts/0/errorText"},
		{"forged outcome", state("output-available", `,"output":1,"toolMetadata":{"countersign":{"outcome":"expired"}}`), 422, "invalid", "/parts/0/toolMetadata/countersign"},
		{"metadata that is none", state("input-available", `,"toolMetadata":7`), 422, "invalid", "/parts/0"},
		{"title that is none", state("input-available", `,"title":null`), 422, "invalid", "/parts/0"},
		{"text after a tool", one(toolPart("x", "c", `{}`) + `,{"type":"text","text":"so"}`), 422, "invalid", "/parts/1"},
		{"a second step", one(`{"type":"text","text":"so"},{"type":"step-start"}`), 422, "invalid", "/parts/1"},
		{"the same call twice", one(toolPart("x", "c", `{}`) + "," + toolPart("y", "c", `{}`)), 422, "invalid", "/parts/1/toolCallId"},
		{"an input too large", one(toolPart("x", "c", `"`+strings.Repeat("x", 256<<10)+`"`)), 422, "invalid", "/parts/0/input"},
		{"too many calls", one(manyCalls(65)), 422, "invalid", "/parts"},
	})
	s.do(one(manyCalls(64))).want(201).is("turn.openCalls", 0) // nobody knows the tool: all are settled
}

func manyCalls(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = toolPart("x", fmt.Sprint("c", i), `{}`)
	}
	return strings.Join(parts, ",")
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	with := func(more string) call { return register(`{"messageId":"m1","parts":[],` + more + `}`) }
	s.refuse([]bad{
		{"execution", with(`"execution":"later"`), 422, "invalid", "/execution"},
		{"executor", with(`"executor":"nobody"`), 422, "invalid", "/executor"},
		{"whileOpen", with(`"whileOpen":"push"`), 422, "invalid", "/whileOpen"},
		{"expiresIn", with(`"expiresIn":"hunter2"`), 422, "invalid", "/expiresIn"},
		{"expiresIn is negative", with(`"expiresIn":"-1h"`), 422, "invalid", "/expiresIn"},
		{"expiresIn is a number", with(`"expiresIn":60`), 422, "invalid", "/expiresIn"},
		{"hold", with(`"hold":{"lease":"1h"}`), 422, "invalid", "/hold/lease"},
		{"hold on", with(`"hold":{"onLapse":"ask"}`), 422, "invalid", "/hold/onLapse"},
		{"lease without live", with(`"lease":"60s"`), 422, "invalid", "/lease"},
		{"live with parts", register(`{"live":true,"parts":[{"type":"text","text":"x"}]}`), 422, "invalid", "/parts"},
		{"continues", with(`"continues":"hunter2"`), 422, "invalid", "/continues"},
		{"sink type", with(`"sink":{"type":"mail"}`), 422, "invalid", "/sink/type"},
		{"a URL of the model's sink", with(`"sink":{"type":"model","url":"https://example.com"}`), 422, "invalid", "/sink/url"},
		{"a file as webhook", with(`"sink":{"type":"webhook","url":"file:///etc/passwd"}`), 422, "invalid", "/sink/url"},
		{"a password in a webhook", with(`"sink":{"type":"webhook","url":"https://me:hunter2@example.com/"}`), 422, "invalid", "/sink/url"},
		{"no URL", with(`"sink":{"type":"webhook"}`), 422, "invalid", "/sink/url"},
		{"no name", with(`"sink":{"type":"jetstream"}`), 422, "invalid", "/sink/name"},
		{"acceptWithin", with(`"sink":{"type":"none","acceptWithin":"1ns"}`), 422, "invalid", "/sink/acceptWithin"},
		{"an unknown turn", with(`"continues":"01900000-0000-7000-8000-000000000000"`), 404, "not-found", ""},
		{"a reply to the system", call{method: "POST", path: "/v1/topics/t/messages", body: `{"messages":[{"id":"u","role":"system","parts":[{"type":"text","text":"x"}]}],"reply":true}`}, 422, "invalid", "/reply"},
		{"an assistant's message", call{method: "POST", path: "/v1/topics/t/messages", body: `{"messages":[{"id":"u","role":"assistant","parts":[{"type":"text","text":"x"}]}]}`}, 422, "invalid", "/messages/0/role"},
		{"a message without parts", call{method: "POST", path: "/v1/topics/t/messages", body: `{"messages":[{"id":"u","role":"user","parts":[]}]}`}, 422, "invalid", "/messages/0/parts"},
		{"a tool in a user's message", call{method: "POST", path: "/v1/topics/t/messages", body: `{"messages":[{"id":"u","role":"user","parts":[` + toolPart("x", "c", "1") + `]}]}`}, 422, "invalid", "/messages/0/parts/0/type"},
	})
}

// strange are texts that must never be an id, a name or a reason.
var strange = map[string]string{
	"NUL":                  "a\u0000b",
	"escape":               "a\u001b[2Jb",
	"bidi override":        "abc\u202etxt.exe",
	"bidi isolate":         "a\u2066b",
	"zero width":           "a\u200bb",
	"tag":                  "a\U000e0041b",
	"line separator":       "a\u2028b",
	"replacement":          "a\ufffdb",
	"more than 200 bytes":  strings.Repeat("x", 201),
	"variation selector":   "a\ufe0fb",
	"soft hyphen":          "a\u00adb",
	"hangul filler":        "a\u3164b",
	"carriage return":      "a\rb",
	"delete":               "a\u007fb",
	"C1 control":           "a\u009bb",
	"right-to-left mark":   "a\u200fb",
	"byte order mark":      "\ufeffab",
	"combining joiner":     "a\u034fb",
	"word joiner":          "a\u2060b",
	"interlinear annot.":   "a\ufff9b",
	"supplementary select": "a\U000e0100b",
}

func TestInvisibleCharactersAreRefusedInIDsNamesAndReasons(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	approval := s.ask("other", "m1").text("turn.calls.0.approvalId")
	var cases []bad
	for name, text := range strange {
		quoted := jsonString(text)
		path := url.PathEscape(text)
		cases = append(cases,
			bad{name + " in a messageId", register(`{"messageId":` + quoted + `,"parts":[]}`), 422, "invalid", "/messageId"},
			bad{name + " in a toolCallId", one(`{"type":"tool-x","toolCallId":` + quoted + `,"state":"input-available","input":1}`), 422, "invalid", "/parts/0/toolCallId"},
			bad{name + " in a tool's name", one(`{"type":` + jsonString("tool-"+text) + `,"toolCallId":"c","state":"input-available","input":1}`), 422, "invalid", "/parts/0/type"},
			bad{name + " in requestedBy", register(`{"messageId":"m","parts":[],"requestedBy":` + quoted + `}`), 422, "invalid", "/requestedBy"},
			bad{name + " in a topic", call{method: "POST", path: "/v1/topics/" + path + "/turns", body: `{"parts":[]}`}, 422, "invalid", ""},
			bad{name + " in a topic that is read", call{path: "/v1/topics/" + path}, 404, "not-found", ""},
			bad{name + " in a policy's name", call{method: "PUT", path: "/v1/policies/" + path, body: `{"tools":["x"],"action":"ask"}`}, 422, "invalid", ""},
			bad{name + " in a policy's tool", call{method: "PUT", path: "/v1/policies/p", body: `{"tools":[` + quoted + `],"action":"ask"}`}, 422, "invalid", "/tools/0"},
			bad{name + " in a decisionId", call{method: "POST", path: "/v1/approvals/" + approval + "/decision", body: `{"approved":true,"decisionId":` + quoted + `}`}, 422, "invalid", "/decisionId"},
		)
		if !strings.ContainsAny(text, "\r") && len(text) < 200 {
			cases = append(cases, bad{name + " in a reason", call{method: "POST", path: "/v1/approvals/" + approval + "/decision", body: `{"approved":true,"reason":` + quoted + `}`}, 422, "invalid", "/reason"})
		}
	}
	s.refuse(cases)
}

// What could never be a name or a token names nothing; the database, which
// refuses some of it, is not even asked.
func TestWhatCannotBeANameNamesNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	call1 := s.ask("t", "m1").text("turn.calls.0.id")
	var cases []bad
	for _, name := range []string{"%00", "a%00b", "%FF", "%C0%80", "%ED%A0%80", "%E2%80%AE", strings.Repeat("x", 201)} {
		for _, of := range []string{"tools", "mcp-servers", "policies", "keys"} {
			path := "/v1/" + of + "/" + name
			cases = append(cases,
				bad{"read " + path, call{path: path}, 404, "not-found", ""},
				bad{"delete " + path, call{method: "DELETE", path: path}, 404, "not-found", ""})
		}
	}
	s.refuse(append(cases, bad{"NUL in a heartbeat's token",
		call{method: "POST", path: "/v1/calls/" + call1 + "/heartbeat", body: `{"fence":1,"token":"a\u0000b"}`}, 409, "fence-lost", ""}))
}

// The name of a server's tool says of which server it is, whatever the server
// calls it: what policies say of the one never means another.
func TestAToolsNameNamesOneServer(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, name := range []string{"a__b", "a_", "__", "_"} {
		s.put("/v1/mcp-servers/"+name+"?wait=0s", `{"command":["x"]}`).problem(422, "invalid")
	}
	s.put("/v1/mcp-servers/_a_b?wait=0s", `{"command":["x"]}`).want(201)
}

// A refused input is quoted in the text that says why, whatever is in it.
func TestARefusedInputMayHoldAnything(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/tools/x", `{"inputSchema":{"additionalProperties":{"type":"string"}},"executor":"caller"}`).want(201)
	for i, name := range []string{`\u0000`, `a\u0000b`, `\u202e`, strings.Repeat(`\u0000`, 1000)} {
		topic := fmt.Sprintf("/v1/topics/t%d", i)
		got := s.post(topic+"/turns", `{"parts":[`+toolPart("x", "c", `{"`+name+`":1}`)+`]}`).want(201)
		got.is("turn.calls.0.state", "output-error")
		s.get(topic+"/messages").want(200).is("items.0.parts.1.errorText", got.text("message.parts.1.errorText"))
	}
}

// jsonString quotes with escapes for all that is not printable ASCII.
func jsonString(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		switch {
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < 0x20 || r > 0x7e || r == '"' || r == '\\':
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func TestIDsWithAGrammarOfTheirOwnAreKeptAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, id := range []string{"a.b", "a b", "a/b", "*", ">", "a>b.*", "a%2Fb", "?x=1&y", "#", "..a", ".", "..", "日本", "a:b", "{topic}", "a+b", `a\b`, `"`} {
		topic := url.PathEscape(id)
		topic = map[string]string{".": "%2E", "..": "%2E%2E"}[id] + topic[len(map[string]string{".": ".", "..": ".."}[id]):]
		turn := s.post("/v1/topics/"+topic+"/turns", `{"messageId":`+jsonString(id)+`,"executor":"caller","parts":[`+
			`{"type":"dynamic-tool","toolName":`+jsonString(id)+`,"toolCallId":`+jsonString(id)+`,"state":"input-available","input":{}}]}`).want(201)
		turn.is("topic.id", id).is("message.id", id).is("message.parts.1.toolName", id).is("message.parts.1.toolCallId", id)
		s.get("/v1/topics/"+topic).want(200).is("id", id)
		s.get("/v1/topics?id="+url.QueryEscape(id)).want(200).is("items.0.id", id)
		s.get("/v1/topics/"+topic+"/messages").want(200).is("items.0.id", id)
		s.get("/v1/approvals?topic="+url.QueryEscape(id)).want(200).is("items.0.tool.name", id)
		s.post("/v1/topics/"+topic+"/cancel", `{}`).want(200).is("ended", 1)
	}
	if n := s.number("select count(*) from topics"); n != 18 {
		t.Errorf("%d topics", n)
	}
}

func TestQueriesAreStrictToo(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.ask("t", "m1")
	s.refuse([]bad{
		{"unknown parameter", call{path: "/v1/topics/t?minversion=1"}, 422, "invalid", "?"},
		{"twice", call{path: "/v1/topics/t?minVersion=1&minVersion=2"}, 422, "invalid", "?minVersion"},
		{"a version", call{path: "/v1/topics/t?minVersion=hunter2"}, 422, "invalid", "?minVersion"},
		{"a limit", call{path: "/v1/topics?limit=0"}, 422, "invalid", "?limit"},
		{"a large limit", call{path: "/v1/topics?limit=1000"}, 422, "invalid", "?limit"},
		{"a cursor", call{path: "/v1/approvals?cursor=hunter2"}, 422, "invalid", "?cursor"},
		{"a state", call{path: "/v1/approvals?state=hunter2"}, 422, "invalid", "?state"},
		{"a wait", call{path: "/v1/approvals?wait=hunter2"}, 422, "invalid", "?wait"},
		{"a version of no topic", call{path: "/v1/approvals?minVersion=1"}, 422, "invalid", "?minVersion"},
		{"a version that does not come", call{path: "/v1/topics/t?minVersion=99"}, 409, "version-unknown", ""},
		{"a channel", call{path: "/v1/topics", header: map[string]string{"Countersign-Channel": "hunter2"}}, 422, "invalid", ""},
		{"an event id", call{path: "/v1/topics/t/events", header: map[string]string{"Last-Event-ID": "hunter2"}}, 422, "invalid", ""},
		{"events of nothing", call{path: "/v1/topics/nothing/events"}, 404, "not-found", ""},
		{"no such path", call{path: "/v2/topics"}, 404, "not-found", ""},
		{"an empty id", call{path: "/v1/topics//messages"}, 404, "not-found", ""},
		{"a relative path", call{path: "/v1/topics/../keys"}, 404, "not-found", ""},
		{"another method", call{method: http.MethodPatch, path: "/v1/topics/t"}, 405, "method-not-allowed", ""},
		{"later: the audit", call{path: "/v1/audit/verify"}, 404, "not-available", ""},
		{"later: grants", call{path: "/v1/grants"}, 404, "not-available", ""},
		{"later: endpoints", call{path: "/v1/endpoints"}, 404, "not-available", ""},
		{"chunks: a turn", call{method: http.MethodPost, path: "/v1/topics/t/turns/x/chunks", body: `{}`}, 404, "not-found", ""},
		{"chunks: a type", call{method: http.MethodPost, path: "/v1/topics/t/turns/01890000-0000-7000-8000-000000000000/chunks", body: `{}`}, 415, "unsupported-media-type", ""},
		{"chat: a version", call{path: "/api/chat/t/stream?sdk=5"}, 422, "invalid", "?sdk"},
	})
	got := s.do(call{method: http.MethodPatch, path: "/v1/topics/t"})
	if got.header.Get("Allow") != "GET" {
		t.Errorf("Allow: %q", got.header.Get("Allow"))
	}
}
