package httpapi

import (
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

func TestToolsAreShownWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	body := `{"description":"Deletes.","effect":"keyed","timeout":"5s","http":{"url":"https://tools.example/do","headers":{"Authorization":"hunter2"}}}`
	put := s.put("/v1/tools/x", body).want(201).is("effect", "keyed").is("executor", "worker").is("http.method", "POST").is("http.headers.Authorization", "***")
	put.is("keyRetention", "24h0m0s").is("maxAttempts", 5).is("timeout", "5s")
	again := s.put("/v1/tools/x", strings.Replace(body, "hunter2", "hunter3", 1)).want(200)
	if again.text("definition") != put.text("definition") {
		t.Error("a new token unsettles what was approved")
	}
	for _, path := range []string{"/v1/tools/x", "/v1/tools"} {
		if got := s.get(path).want(200); strings.Contains(string(got.body), "hunter") {
			t.Errorf("%s shows a secret: %s", path, got.body)
		}
	}
	s.do(call{method: "DELETE", path: "/v1/tools/x"}).want(204)
	s.get("/v1/tools/x").problem(404, "not-found")
}

func TestToolsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/mcp-servers/files?wait=0s", `{"command":["true"]}`).want(201).is("state", "importing")
	tool := func(body string) call { return call{method: "PUT", path: "/v1/tools/x", body: body} }
	server := func(body string) call { return call{method: "PUT", path: "/v1/mcp-servers/s?wait=0s", body: body} }
	rule := func(body string) call { return call{method: "PUT", path: "/v1/policies/p", body: body} }
	key := func(body string) call { return call{method: "PUT", path: "/v1/keys/k", body: body} }
	s.refuse([]bad{
		{"effect", tool(`{"effect":"hunter2"}`), 422, "invalid", "/effect"},
		{"timeout", tool(`{"timeout":"11m"}`), 422, "invalid", "/timeout"},
		{"attempts", tool(`{"maxAttempts":0}`), 422, "invalid", "/maxAttempts"},
		{"retention", tool(`{"keyRetention":"1h"}`), 422, "invalid", "/keyRetention"},
		{"a worker without a target", tool(`{"executor":"worker"}`), 422, "invalid", "/http"},
		{"a caller with a target", tool(`{"executor":"caller","http":{"url":"http://x/"}}`), 422, "invalid", "/http"},
		{"a file", tool(`{"http":{"url":"file:///etc/passwd"}}`), 422, "invalid", "/http/url"},
		{"a method", tool(`{"http":{"url":"http://x/","method":"CONNECT"}}`), 422, "invalid", "/http/method"},
		{"a header of ours", tool(`{"http":{"url":"http://x/","headers":{"Idempotency-Key":"1"}}}`), 422, "invalid", "/http/headers"},
		{"a header that is none", tool(`{"http":{"url":"http://x/","headers":{"a b":"1"}}}`), 422, "invalid", "/http/headers"},
		{"a header that splits", tool(`{"http":{"url":"http://x/","headers":{"a":"1\r\nb: 2"}}}`), 422, "invalid", "/http/headers"},
		{"the mask", tool(`{"http":{"url":"http://x/","headers":{"a":"***"}}}`), 422, "invalid", "/http/headers"},
		{"a schema", tool(`{"inputSchema":{"type":"hunter2"}}`), 422, "invalid", "/inputSchema"},
		{"a schema that reads files", tool(`{"inputSchema":{"$ref":"file:///etc/passwd"}}`), 422, "invalid", "/inputSchema"},
		{"an imported tool's name", call{method: "PUT", path: "/v1/tools/files__read", body: `{}`}, 422, "invalid", ""},
		{"neither command nor URL", server(`{}`), 422, "invalid", ""},
		{"both", server(`{"command":["x"],"url":"http://x/"}`), 422, "invalid", ""},
		{"autoApprove", server(`{"command":["x"],"autoApprove":"hunter2"}`), 422, "invalid", "/autoApprove"},
		{"a wild pattern", server(`{"command":["x"],"disabledAutoApproveTools":["*"]}`), 422, "invalid", "/disabledAutoApproveTools/0"},
		{"a name with the separator", call{method: "PUT", path: "/v1/mcp-servers/a__b?wait=0s", body: `{"command":["x"]}`}, 422, "invalid", ""},
		{"no action", rule(`{"tools":["x"]}`), 422, "invalid", "/action"},
		{"no tools", rule(`{"tools":[],"action":"ask"}`), 422, "invalid", "/tools"},
		{"everything", rule(`{"tools":["*"],"action":"deny"}`), 422, "invalid", "/tools/0"},
		{"a prefix", rule(`{"tools":["del*"],"action":"deny"}`), 422, "invalid", "/tools/0"},
		{"a quorum nobody reaches", rule(`{"tools":["x"],"action":"ask","quorum":2,"approvers":["user:a"]}`), 422, "invalid", "/quorum"},
		{"a quorum to allow", rule(`{"tools":["x"],"action":"allow","quorum":2}`), 422, "invalid", "/action"},
		{"an approver that is none", rule(`{"tools":["x"],"action":"ask","approvers":["bob"]}`), 422, "invalid", "/approvers/0"},
		{"a role", key(`{"roles":["root"]}`), 422, "invalid", "/roles/0"},
		{"no role", key(`{"roles":[]}`), 422, "invalid", "/roles"},
		{"a key's sink", key(`{"roles":["backend"],"sink":{"type":"webhook","url":"ftp://x/"}}`), 422, "invalid", "/sink/url"},
	})
}

func TestAnMCPServerTellsHonestlyHowFarItIs(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	put := s.put("/v1/mcp-servers/files?wait=0s", `{"command":["files"],"env":{"TOKEN":"hunter2"},"disabledAutoApproveTools":["files__*"]}`).want(201)
	put.is("state", "importing").is("env.TOKEN", "***").is("autoApprove", "read").is("tools.0", nil)
	waited := make(chan result)
	go func() { waited <- s.put("/v1/mcp-servers/files", `{"command":["files"]}`) }()
	// What a worker does, as soon as the new revision is there.
	var server model.MCPServer
	for server.Revision < 2 {
		for _, m := range must(s.store.UnimportedServers(t.Context(), 10))(t) {
			server = m
		}
	}
	tool := model.Tool{Tenant: acme, Definition: model.ToolDefinition{Name: "files__read", Server: "files", Effect: model.EffectRead,
		Executor: model.ExecutorWorker, MaxAttempts: 5, MCP: &model.MCPTarget{Tool: "read"}}}
	if err := s.store.ImportTools(t.Context(), server, []model.Tool{tool}); err != nil {
		t.Fatal(err)
	}
	(<-waited).want(200).is("state", "imported").is("tools.0", "files__read").is("importError", nil)
	s.get("/v1/mcp-servers").want(200).is("items.0.tools.0", "files__read")
	s.do(call{method: "DELETE", path: "/v1/tools/files__read"}).problem(422, "invalid")
	s.post("/v1/topics/t/turns", `{"parts":[`+toolPart("files__read", "c", "{}")+`]}`).want(201).is("turn.calls.0.run", "queued")

	s.put("/v1/mcp-servers/broken?wait=0s", `{"command":["broken"]}`).want(201)
	broken := must(s.store.MCPServer(t.Context(), acme, "broken"))(t)
	if err := s.store.ImportFailed(t.Context(), broken, "no such program"); err != nil {
		t.Fatal(err)
	}
	s.get("/v1/mcp-servers/broken").want(200).is("state", "failed").is("importError", "no such program")
	s.do(call{method: "DELETE", path: "/v1/mcp-servers/files"}).want(204)
	s.get("/v1/tools/files__read").problem(404, "not-found")
}

func TestListsGoOnWhereTheyStopped(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, topic := range []string{"a", "b", "c"} {
		s.ask(topic, "m1")
	}
	for list, field := range map[string]string{"topics": "id", "approvals": "id", "calls": "id", "keys": "name"} {
		seen := map[string]bool{}
		path := "/v1/" + list + "?limit=1"
		for n := 0; path != "" && n < 10; n++ {
			got := s.get(path).want(200)
			if id := got.text("items.0." + field); id == "" || seen[id] || got.at("items.1") != nil {
				t.Fatalf("%s: %s", list, got.body)
			} else {
				seen[id] = true
			}
			path = ""
			if next := got.text("nextCursor"); next != "" {
				path = "/v1/" + list + "?limit=1&cursor=" + next
			}
		}
		if want := map[string]int{"keys": 4}[list]; len(seen) != max(want, 3) {
			t.Errorf("%s: %d items", list, len(seen))
		}
	}
	s.get("/v1/topics?status=awaiting-approval").want(200).is("items.2.status", "awaiting-approval")
	s.get("/v1/topics?status=done").want(200).is("items.0", nil)
	s.get("/v1/topics?id=b&id=nothing&id=a").want(200).is("items.0.id", "b").is("items.1.id", "a").is("items.2", nil)
	s.get("/v1/approvals?assignee=user:bob&tool=danger").want(200).is("items.0.topic", "c")
}

func TestACallThatIsDeniedMeanwhileIsNotClaimed(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("t", "m1")
	s.answer("user:bob", turn.text("turn.calls.0.approvalId"), `{"approved":true}`).want(200)
	s.put("/v1/policies/no", `{"tools":["danger"],"action":"deny","reason":"Stop."}`).want(201)
	s.post("/v1/calls/"+turn.text("turn.calls.0.id")+"/claim", `{"claimId":"k"}`).problem(409, "not-claimable").is("state", "stopped").is("call.state", "output-error")
	s.get("/v1/turns/"+turn.text("turn.id")).want(200).is("state", "continuing")
}
