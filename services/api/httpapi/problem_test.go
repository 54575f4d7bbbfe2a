package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

func TestEverySentinelHasItsProblem(t *testing.T) {
	t.Parallel()
	for _, sentinel := range model.Sentinels {
		found := 0
		for _, k := range kinds {
			if k.err == sentinel { //nolint:errorlint // the sentinel itself, not what wraps it
				found++
			}
		}
		if found != 1 {
			t.Errorf("%q is in the table %d times", sentinel, found)
		}
		p := problemOf(fmt.Errorf("somewhere: %w", sentinel))
		if p.Status < 400 || p.Title == "" || p.Detail == "" || strings.Contains(p.Detail, "somewhere") {
			t.Errorf("%q becomes %+v", sentinel, p)
		}
	}
}

func TestAnErrorNobodyForesawShowsNothing(t *testing.T) {
	t.Parallel()
	p := problemOf(errors.New(`ERROR: duplicate key value "hunter2" (SQLSTATE 23505)`))
	if p.Status != 500 || p.Type != "/problems/internal" || strings.Contains(fmt.Sprint(p), "hunter2") {
		t.Errorf("%+v", p)
	}
	p = problemOf(fmt.Errorf("%w: dial tcp 10.0.0.1:5432: refused", model.ErrUnavailable))
	if p.Status != 503 || strings.Contains(fmt.Sprint(p), "10.0.0.1") {
		t.Errorf("%+v", p)
	}
}

func TestEveryProblemIsExplained(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, k := range kinds {
		got := s.do(call{key: "nobody", path: "/problems/" + k.name}).want(200)
		if !strings.Contains(string(got.body), k.explanation) {
			t.Errorf("%s: %s", k.name, got.body)
		}
	}
	s.do(call{key: "nobody", path: "/problems/none"}).want(404)
}

func TestTheDocumentListsEveryRoute(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	got := s.do(call{key: "nobody", path: "/openapi.json"}).want(200)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(got.body, &doc); err != nil || doc.OpenAPI != "3.1.0" {
		t.Fatalf("%s: %v", doc.OpenAPI, err)
	}
	for _, rt := range (&API{}).routes() {
		if doc.Paths[rt.path][strings.ToLower(rt.method)] == nil {
			t.Errorf("%s is not in the document", rt.pattern())
		}
	}
	for _, name := range []string{"Problem", "TurnRequest", "Card", "DecisionRequest"} {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	if strings.Contains(string(got.body), "base64") {
		t.Error("raw JSON is described as base64")
	}
}

// Every id that names something is another tenant's here, and every answer
// is the one that an unknown id has (I9).
func TestAnotherTenantsThingsAreNotThere(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.put("/v1/tools/mine", `{}`).want(201)
	s.put("/v1/policies/mine", `{"tools":["x"],"action":"ask"}`).want(201)
	s.put("/v1/mcp-servers/mine?wait=0s", `{"command":["true"]}`).want(201)
	turn := s.ask("t", "m1")
	live := s.post("/v1/topics/live/turns", `{"live":true}`).want(201)
	id, callID, approval := turn.text("turn.id"), turn.text("turn.calls.0.id"), turn.text("turn.calls.0.approvalId")
	before := s.rows()
	ending := `{"fence":1,"token":"` + live.text("token") + `","parts":[]}`
	for _, c := range []call{
		{path: "/v1/topics/t"},
		{path: "/v1/topics/t/messages"},
		{path: "/v1/topics/t/events"},
		{path: "/v1/turns/" + id},
		{path: "/v1/turns/" + id + "?wait=10s"},
		{path: "/v1/approvals/" + approval},
		{path: "/v1/approvals/" + approval + "?wait=10s"},
		{path: "/v1/calls/" + callID},
		{path: "/v1/calls/" + callID + "/input"},
		{path: "/v1/tools/mine"},
		{path: "/v1/policies/mine"},
		{path: "/v1/mcp-servers/mine"},
		{path: "/v1/keys/root"},
		{method: "DELETE", path: "/v1/tools/mine"},
		{method: "DELETE", path: "/v1/policies/mine"},
		{method: "DELETE", path: "/v1/mcp-servers/mine"},
		{method: "DELETE", path: "/v1/keys/root"},
		{method: "POST", path: "/v1/topics/t/cancel", body: `{}`},
		{method: "POST", path: "/v1/topics/live/turns/" + live.text("turn.id") + "/finish", body: ending},
		{method: "POST", path: "/v1/topics/mine/turns", body: `{"continues":"` + id + `","parts":[]}`},
		{method: "POST", path: "/v1/calls/" + callID + "/claim", body: `{"claimId":"k"}`},
		{method: "POST", path: "/v1/calls/" + callID + "/heartbeat", body: `{"fence":1,"token":"x"}`},
		{method: "POST", path: "/v1/calls/" + callID + "/result", body: `{"fence":1,"token":"x","output":1}`},
		{method: "POST", path: "/v1/continuations/" + id + "/redrive", body: `{}`},
		{method: "POST", path: "/v1/approvals/" + approval + "/decision", body: `{"approved":true,"updatedInput":{"a":2}}`},
	} {
		c.key = "stranger"
		got := s.do(c)
		if got.status != 404 || got.text("type") != "/problems/not-found" {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	for _, list := range []string{"topics", "topics?id=t", "approvals", "calls", "continuations", "tools", "policies", "mcp-servers"} {
		if got := s.do(call{key: "stranger", path: "/v1/" + list}).want(200); strings.Contains(string(got.body), `"id"`) || got.at("items.0") != nil {
			t.Errorf("%s: %s", list, got.body)
		}
	}
	if after := s.rows(); after != before {
		t.Errorf("rows were written:\n%s\nbefore:\n%s", after, before)
	}
}

func TestEachRoleDoesItsPart(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, c := range []call{
		{key: "viewer", method: "POST", path: "/v1/topics/t/turns", body: `{"parts":[]}`},
		{key: "people", method: "POST", path: "/v1/topics/t/turns", body: `{"parts":[]}`},
		{key: "viewer", method: "POST", path: "/v1/topics/t/cancel", body: `{}`},
		{key: "backend", method: "PUT", path: "/v1/tools/x", body: `{}`},
		{key: "people", method: "PUT", path: "/v1/policies/x", body: `{"tools":["x"],"action":"allow"}`},
		{key: "backend", method: "PUT", path: "/v1/keys/x", body: `{"roles":["admin"]}`},
		{key: "people", path: "/v1/signing-secret"},
		{key: "backend", method: "POST", path: "/v1/signing-secret/rotate", body: `{}`},
		{key: "viewer", path: "/v1/keys"},
	} {
		s.do(c).problem(http.StatusForbidden, "not-permitted")
	}
	first := s.do(call{key: "backend", path: "/v1/signing-secret"}).want(200)
	second := s.post("/v1/signing-secret/rotate", `{}`).want(200)
	if first.text("secret") == second.text("secret") || second.text("previous") != first.text("secret") {
		t.Errorf("rotated %s to %s", first.body, second.body)
	}
}
