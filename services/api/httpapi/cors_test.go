package httpapi

import (
	"strings"
	"testing"
)

// pageOrigin is the web page of another origin that may use the node.
const pageOrigin = "https://chat.example"

func TestAPageOfAnAllowedOriginMayUseWhatIsOpenToTokens(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	about := s.placed("root", "a", "1")
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["a"]}`)
	preflight := func(path, method, origin string) result {
		return s.do(call{key: "nobody", method: "OPTIONS", path: path, header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,content-type",
		}})
	}
	for _, rt := range (&API{}).routes() {
		path := about.in(rt.path)
		asked := preflight(path, rt.method, pageOrigin)
		answered := s.do(call{key: "nobody", method: rt.method, path: path, header: map[string]string{"Origin": pageOrigin}}).want(401)
		allowed := asked.status == 204 && strings.Contains(asked.header.Get("Access-Control-Allow-Methods"), rt.method)
		if open := rt.tokens != closed; allowed != open || (answered.header.Get("Access-Control-Allow-Origin") == pageOrigin) != open {
			t.Errorf("%s: a preflight answers %d %v, a request %v", rt.pattern(), asked.status, asked.header, answered.header)
		}
		if asked.header.Get("Access-Control-Allow-Credentials")+answered.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s takes a page's cookies", rt.pattern())
		}
	}
	decision := about.in("/v1/approvals/{approval}/decision")
	for _, name := range []string{"Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key", "Countersign-AI-SDK"} {
		if got := preflight(decision, post, pageOrigin).header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, name) {
			t.Errorf("a page may not send %s: %s", name, got)
		}
	}
	got := s.do(call{key: "bob", path: "/v1/topics/a", header: map[string]string{"Origin": pageOrigin}}).want(200)
	if got.header.Get("Access-Control-Allow-Origin") != pageOrigin || got.header.Get("Vary") != "Origin" {
		t.Errorf("headers %v", got.header)
	}
}

func TestAPageOfAnyOtherOriginReadsNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.ask("a", "m1")
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["a"]}`)
	for _, origin := range []string{"https://evil.example", "null", "https://chat.example.evil.example", "http://chat.example", "https://chat.example:444", ""} {
		header := map[string]string{"Origin": origin, "Access-Control-Request-Method": get}
		asked := s.do(call{key: "nobody", method: "OPTIONS", path: "/v1/topics/a", header: header})
		answered := s.do(call{key: "bob", path: "/v1/topics/a", header: header}).want(200)
		if got := asked.header.Get("Access-Control-Allow-Origin") + answered.header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%q is allowed: %s", origin, got)
		}
	}
}

func TestOriginsAreWrittenAsBrowsersSendThem(t *testing.T) {
	t.Parallel()
	if _, err := ParseOrigins([]string{"https://chat.example", "http://127.0.0.1:3000", "http://[::1]:3000"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"*", "https://*.example", "chat.example", "https://chat.example/", "https://chat.example/x", "https://u:p@chat.example", "null", "", "ftp://x"} {
		if _, err := ParseOrigins([]string{bad}); err == nil {
			t.Errorf("%q is taken for an origin", bad)
		}
	}
}
