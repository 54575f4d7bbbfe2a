package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/token"
)

// mint makes a token with a key; its name is known to do from then on.
func (s *system) mint(name, key, body string) result {
	s.t.Helper()
	got := s.do(call{key: key, method: post, path: "/v1/tokens", body: body}).want(201)
	s.keys[name] = got.text("token")
	return got
}

// sign makes a token that no answer would give.
func (s *system) sign(name string, t token.Token, secret []byte) {
	s.t.Helper()
	s.keys[name] = must(t.Sign(secret))(s.t)
}

// things are what of one topic a path can name.
type things map[string]string

// placed registers a turn whose call waits; marker is within its input.
func (s *system) placed(key, topic, marker string) things {
	s.t.Helper()
	body := fmt.Sprintf(`{"messageId":"m1","executor":"caller","parts":[%s]}`, toolPart("danger", "c1", fmt.Sprintf(`{"a":%q}`, marker)))
	got := s.do(call{key: key, method: post, path: "/v1/topics/" + topic + "/turns", body: body}).want(201)
	return things{"topic": topic, "turn": got.text("turn.id"), "approval": got.text("turn.calls.0.approvalId"), "call": got.text("turn.calls.0.id"),
		"continuation": got.text("turn.id"), "name": "x", "marker": marker}
}

// in puts things into a path or a body.
func (th things) in(text string) string {
	for name, value := range th {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// ownBodies are bodies for the routes that are open to tokens and take one: a
// new such route says here how it is asked about a topic's things.
var ownBodies = map[string]string{
	"POST /api/chat":                         `{"id":"{topic}","messages":[{"id":"m1","role":"assistant","parts":[]}]}`,
	"POST /v1/topics/{topic}/cancel":         `{}`,
	"POST /v1/approvals/{approval}/decision": `{"approved":true}`,
	"POST /v1/decisions":                     `{"decisions":[{"approvalId":"{approval}","approved":true}]}`,
	"POST /v1/calls/{call}/resolution":       `{"outcome":"closed"}`,
}

// asked is a request of a route about some things.
func (s *system) asked(rt route, key string, about things) result {
	s.t.Helper()
	path := about.in(rt.path)
	if strings.Contains(path, "{") {
		s.t.Fatalf("%s: a test must know what its path names", rt.pattern())
	}
	c := call{key: key, method: rt.method, path: path}
	if rt.body != nil {
		c.body = `{}`
		if body, known := ownBodies[rt.pattern()]; known {
			c.body = about.in(body)
		} else if rt.tokens != closed {
			s.t.Fatalf("%s: a test must know its body", rt.pattern())
		}
	}
	if rt.body == nil && rt.answer == reflect.TypeFor[nothing]() && rt.method == get {
		return s.opened(c)
	}
	return s.do(c)
}

// opened asks for a stream and looks at its beginning alone.
func (s *system) opened(c call) result {
	s.t.Helper()
	r := must(http.NewRequestWithContext(s.t.Context(), c.method, s.url+c.path, nil))(s.t)
	r.Header.Set("Authorization", "Bearer "+s.keys[c.key])
	response := must(http.DefaultClient.Do(r))(s.t)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return s.do(c)
	}
	return result{t: s.t, status: response.StatusCode, header: response.Header}
}

// Every route of the contract, asked with every kind of token about every
// kind of thing: what is not the token's is refused, as if it were not there,
// and nothing is written (trap d). A new route is here by itself: closed to
// tokens, unless its line says otherwise.
func TestATokenReachesItsOwnTopicsAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.key(acme, store.KeyRow{Name: "web", Roles: []model.Role{model.RoleBackend}, TokensDecide: true})
	s.key(acme, store.KeyRow{Name: "gone", Roles: everyRole, TokensDecide: true})
	s.key(acme, store.KeyRow{Name: "demoted", Roles: everyRole, TokensDecide: true})
	mine, theirs, foreign := s.placed("root", "mine", "of-mine"), s.placed("root", "theirs", "of-theirs"), s.placed("stranger", "far", "of-far")

	const body = `{"subject":"user:bob","topics":["mine"]}`
	for _, key := range []string{"web", "gone", "demoted"} {
		s.mint(key+"'s", key, body)
	}
	s.mint("stranger's", "stranger", body) // for a topic of the same name, in its own tenant
	s.do(call{method: del, path: "/v1/keys/gone"}).want(204)
	s.put("/v1/keys/gone", `{"roles":["backend"],"tokensDecide":true}`).want(201) // another of the same name
	s.put("/v1/keys/demoted", `{"roles":["approver","viewer"]}`).want(200)
	secret := must(s.store.Minter(t.Context(), acme, "web"))(t).Secret
	bob := token.Token{Tenant: acme, Key: "web", Subject: "user:bob", Topics: []model.TopicID{"mine"}, Expires: time.Now().Add(-time.Second)}
	s.sign("expired", bob, secret)
	bob.Expires = time.Now().Add(time.Hour)
	s.sign("self-made", bob, []byte("guessed"))
	bob.Tenant = other
	s.sign("of another tenant", bob, secret)
	s.keys["tampered"] = s.keys["web's"][:len(s.keys["web's"])-2] + "AA"

	before := s.rows()
	for _, rt := range (&API{}).routes() {
		for _, bad := range []string{"gone's", "demoted's", "expired", "self-made", "of another tenant", "tampered"} {
			s.asked(rt, bad, mine).problem(401, "unauthenticated")
		}
		for _, about := range []things{theirs, foreign, mine} {
			key := "web's"
			if about["topic"] == "mine" {
				key = "stranger's" // whose tenant has no such topic
			}
			got := s.asked(rt, key, about)
			switch {
			case rt.tokens == closed:
				got.problem(403, "not-permitted")
			case rt.tokens == ofPath && rt.path == "/v1/topics/{topic}/cancel" && key == "stranger's":
				got.problem(404, "not-found")
			case rt.tokens == ofPath && strings.Contains(rt.path, "{topic}") && key == "stranger's":
			case rt.tokens == ofPath:
				got.problem(404, "not-found")
			}
			told := strings.ReplaceAll(string(got.body), about.in(rt.path), "") // what was asked
			if strings.Contains(told, about["marker"]) || strings.Contains(told, about["turn"]) {
				t.Errorf("%s with %s tells of %s: %s", rt.pattern(), key, about["topic"], got.body)
			}
		}
	}
	if after := s.rows(); after != before {
		t.Fatalf("rows were written:\n%s\nbefore:\n%s", after, before)
	}
	for _, rt := range (&API{}).routes() {
		if rt.tokens == closed {
			s.asked(rt, "web's", mine).problem(403, "not-permitted")
			continue
		}
		if got := s.asked(rt, "web's", mine); got.status == 401 || got.status == 403 || got.status == 404 || got.status >= 500 {
			t.Errorf("%s with its own token: %d %s", rt.pattern(), got.status, got.body)
		}
	}
}

// Lists are narrowed to the token's topics, whatever they are asked for.
func TestATokensListsAreNarrowed(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for _, topic := range []string{"a", "b", "c"} {
		s.placed("root", topic, "of-"+topic)
	}
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["c","a","later","a"]}`)
	for path, want := range map[string]string{
		"/v1/topics": "c a", "/v1/topics?id=a&id=b": "a", "/v1/topics?id=b": "", "/v1/topics?status=done": "",
		"/v1/approvals": "c a", "/v1/approvals?topic=a": "a", "/v1/approvals?state=approved": "",
		"/v1/calls": "a c", "/v1/calls?topic=c": "c", "/v1/calls?limit=1": "a",
	} {
		var got []string
		items, _ := s.do(call{key: "bob", path: path}).want(200).at("items").([]any)
		for _, item := range items {
			m := item.(map[string]any)
			topic, is := m["topic"].(string)
			if !is {
				topic = m["id"].(string)
			}
			got = append(got, topic)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s gives %v, want %s", path, got, want)
		}
	}
	for _, path := range []string{"/v1/approvals?topic=b", "/v1/calls?topic=b", "/v1/calls?topic=b&minVersion=1", "/v1/calls?topic=none"} {
		s.do(call{key: "bob", path: path}).problem(404, "not-found")
	}
}

// Who decides with a token is the person; the audit has the key as well
// (I10), and the right is the key's at that moment.
func TestATokenDecidesWhereAnAdminAllowedItsKeyTo(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	first, second, third := s.placed("root", "a", "1"), s.placed("root", "b", "2"), s.placed("root", "c", "3")
	topics := `{"subject":"user:bob","topics":["a","b"]}`
	s.mint("bob", "backend", topics).is("mayDecide", false)
	decide := func(about things) result {
		return s.do(call{key: "bob", method: post, path: about.in("/v1/approvals/{approval}/decision"), body: `{"approved":true,"reason":"fine"}`})
	}
	decide(first).problem(403, "not-permitted")
	s.put("/v1/keys/backend", `{"roles":["backend"],"tokensDecide":true}`).want(200).is("tokensDecide", true)
	decide(first).want(200).is("result", "applied").is("approval.decision.decidedBy", "user:bob")
	if n := s.number(`select count(*) from audit where action = 'approval.approved' and actor = 'user:bob by key:backend'`); n != 1 {
		t.Errorf("%d audit rows have both the person and the key", n)
	}
	if n := s.number(`select count(*) from decisions where decided_by = 'user:bob' and key_name = 'backend'`); n != 1 {
		t.Errorf("%d decisions have both the person and the key", n)
	}
	batch := fmt.Sprintf(`{"decisions":[{"approvalId":%q,"approved":true},{"approvalId":%q,"approved":true},{"approvalId":%q,"approved":true,"updatedInput":{"a":1}}]}`,
		second["approval"], third["approval"], third["approval"])
	s.do(call{key: "bob", method: post, path: "/v1/decisions", body: batch}).want(200).
		is("items.0.status", 200).is("items.1.status", 404).is("items.2.status", 404)
	s.put("/v1/keys/backend", `{"roles":["backend"]}`).want(200)
	decide(first).problem(403, "not-permitted")
	s.do(call{key: "bob", path: "/v1/topics/a"}).want(200)
}

// A stream that is open ends with the token's time, and with its key.
func TestATokensStreamsEndWithIt(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.ask("a", "m1")
	s.key(acme, store.KeyRow{Name: "web", Roles: []model.Role{model.RoleBackend}})
	s.mint("lasting", "web", `{"subject":"user:bob","topics":["a"]}`)
	secret := must(s.store.Minter(t.Context(), acme, "web"))(t).Secret
	s.sign("short", token.Token{Tenant: acme, Key: "web", Subject: "user:bob", Topics: []model.TopicID{"a"}, Expires: time.Now().Add(2 * time.Second)}, secret)
	_, short := s.follow("short", "/v1/topics/a/events")
	_, lasting := s.follow("lasting", "/v1/topics/a/events")
	for range short { // ends, or the test runs out of time
	}
	s.do(call{key: "short", path: "/v1/topics/a"}).problem(401, "unauthenticated")
	s.do(call{key: "lasting", path: "/v1/topics/a"}).want(200)
	s.do(call{method: del, path: "/v1/keys/web"}).want(204)
	s.do(call{key: "lasting", path: "/v1/topics/a"}).problem(401, "unauthenticated")
	for range lasting {
	}
}

// A request that waits is told nothing that comes after the end of its key.
func TestARequestThatWaitsEndsWithItsToken(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	about := s.placed("root", "a", "1")
	s.key(acme, store.KeyRow{Name: "web", Roles: []model.Role{model.RoleBackend}})
	s.mint("bob", "web", `{"subject":"user:bob","topics":["a"]}`)
	answers := make(chan result, 3)
	for _, path := range []string{"/v1/approvals/{approval}?wait=60s", "/v1/turns/{turn}?wait=60s", "/v1/calls?topic=a&state=succeeded&wait=60s"} {
		go func() { answers <- s.do(call{key: "bob", path: about.in(path)}) }()
	}
	for s.waits.now.Load() < 3 {
		if t.Context().Err() != nil {
			t.Fatal("the requests never waited")
		}
		runtime.Gosched()
	}
	s.do(call{method: del, path: "/v1/keys/web"}).want(204)
	s.answer("user:eve", about["approval"], `{"approved":false}`).want(200)
	for range 3 {
		(<-answers).problem(401, "unauthenticated")
	}
}

func TestTokensThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	mint := func(body string) call { return call{key: "backend", method: post, path: "/v1/tokens", body: body} }
	bob := func(rest string) call { return mint(`{"subject":"user:bob",` + rest + `}`) }
	many := strings.TrimSuffix(strings.Repeat(`"t",`, maxTopics+1), ",")
	long := fmt.Sprintf(`"%s1","%s2"`, strings.Repeat("a", 199), strings.Repeat("b", 199))
	for i := range 12 {
		long += fmt.Sprintf(`,"%s%d"`, strings.Repeat("c", 190), i)
	}
	s.refuse([]bad{
		{"nobody", mint(`{"topics":["t"]}`), 422, "invalid", "/subject"},
		{"a key", mint(`{"subject":"key:root","topics":["t"]}`), 422, "invalid", "/subject"},
		{"an empty name", mint(`{"subject":"user:","topics":["t"]}`), 422, "invalid", "/subject"},
		{"no topics", bob(`"topics":[]`), 422, "invalid", "/topics"},
		{"every topic", bob(`"topics":[""]`), 422, "invalid", "/topics/0"},
		{"many topics", bob(`"topics":[` + many + `]`), 422, "invalid", "/topics"},
		{"long topics", bob(`"topics":[` + long + `]`), 422, "invalid", "/topics"},
		{"two days", bob(`"topics":["t"],"expiresIn":"48h"`), 422, "invalid", "/expiresIn"},
		{"no time", bob(`"topics":["t"],"expiresIn":"-1h"`), 422, "invalid", "/expiresIn"},
		{"a role of one's own", bob(`"topics":["t"],"roles":["admin"]`), 422, "invalid", "/roles"},
		{"tokens of a key that mints none", call{method: put, path: "/v1/keys/x", body: `{"roles":["viewer"],"tokensDecide":true}`}, 422, "invalid", "/tokensDecide"},
		{"a viewer", call{key: "viewer", method: post, path: "/v1/tokens", body: `{"subject":"user:bob","topics":["t"]}`}, 403, "not-permitted", ""},
	})
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["t"],"expiresIn":"24h"}`)
	s.refuse([]bad{
		{"for another person", as(get, "/v1/topics", "", "bob", "user:eve"), 403, "not-permitted", ""},
		{"in a query", call{key: "nobody", path: "/v1/topics?token=" + url.QueryEscape(s.keys["bob"])}, 401, "unauthenticated", ""},
		{"in a query, too", call{key: "bob", path: "/v1/topics?token=" + url.QueryEscape(s.keys["bob"])}, 422, "invalid", ""},
	})
}

// A browser's cookie is as good as the header, but for what another origin's
// page makes it do. A key is no cookie.
func TestATokenInACookie(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	first := s.placed("root", "a", "1")
	s.put("/v1/keys/backend", `{"roles":["backend"],"tokensDecide":true}`).want(200)
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["a"]}`)
	cookie := func(name, value, method, path, body string, header ...string) result {
		c := call{key: "nobody", method: method, path: path, body: body, header: map[string]string{"Cookie": name + "=" + value}}
		for i := 0; i < len(header); i += 2 {
			c.header[header[i]] = header[i+1]
		}
		return s.do(c)
	}
	bob := s.keys["bob"]
	decision, approve := first.in("/v1/approvals/{approval}/decision"), `{"approved":true}`
	cookie(TokenCookie, bob, get, "/v1/topics/a", "").want(200)
	cookie(TokenCookie, s.keys["root"], get, "/v1/topics/a", "").problem(401, "unauthenticated")
	cookie("countersign", bob, get, "/v1/topics/a", "").problem(401, "unauthenticated")
	cookie(TokenCookie, bob, get, "/v1/topics/a", "", "X-Forwarded-Proto", "https").problem(401, "unauthenticated")
	cookie("__Host-"+TokenCookie, bob, get, "/v1/topics/a", "", "X-Forwarded-Proto", "https").want(200)
	cookie(TokenCookie, bob, get, "/v1/topics/a", "", "Authorization", "Bearer nonsense").problem(401, "unauthenticated")
	for _, origin := range []string{"https://evil.example", pageOrigin, "null"} {
		cookie(TokenCookie, bob, post, decision, approve, "Origin", origin).problem(403, "not-permitted")
	}
	cookie(TokenCookie, bob, post, decision, approve, "Sec-Fetch-Site", "cross-site").problem(403, "not-permitted")
	cookie(TokenCookie, bob, post, decision, approve, "Origin", s.url).want(200).is("approval.decision.decidedBy", "user:bob")
}

// One person's open streams are bounded, chats among them, and a chat that is
// not admitted does nothing; what has ended counts no more.
func TestOnePersonsStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.ask("a", "m1")
	for _, person := range []string{"bob", "eve"} {
		s.mint(person, "backend", fmt.Sprintf(`{"subject":"user:%s","topics":["a"]}`, person))
	}
	var leave func()
	for {
		left, err := s.waits.Admit("user:bob")
		if err != nil {
			break
		}
		leave = left
	}
	window := func(key string) result { return s.do(call{key: key, path: "/api/chat/a/stream"}) }
	window("bob").problem(429, "rate-limited")
	s.do(call{key: "bob", method: http.MethodPost, path: "/api/chat",
		body: `{"id":"a","messages":[{"id":"u9","role":"user","parts":[{"type":"text","text":"hi"}]}]}`}).problem(429, "rate-limited")
	if n := s.number(`select count(*) from messages where message_id = 'u9'`); n != 0 {
		t.Error("a message of a chat that was not admitted is written")
	}
	window("eve").want(204)
	window("backend").want(204)
	leave()
	window("bob").want(204)
	tick, late := time.NewTicker(time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for window("bob").status != 204 {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("what has ended still counts")
		}
	}
}

// One person's requests are bounded, however many tokens bring them, and
// nobody else's for it; what an open stream asks is no request.
func TestOnePersonsRequestsAreBounded(t *testing.T) {
	t.Parallel()
	const rate = 3
	s := newSystem(t, func(l *Limits) { l.PersonRate = rate })
	turn := s.ask("a", "m1")
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["a"]}`)
	s.mint("bob again", "root", `{"subject":"user:bob","topics":["a"]}`)
	s.mint("eve", "backend", `{"subject":"user:eve","topics":["a"]}`)
	_, lines := s.follow("eve", "/v1/topics/a/events")
	refused := 0
	for i := range 4 * rate {
		if got := s.do(call{key: []string{"bob", "bob again"}[i%2], path: "/v1/topics/a"}); got.status == http.StatusTooManyRequests {
			got.problem(429, "rate-limited")
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	s.do(call{key: "eve", path: "/v1/topics/a"}).want(200)
	for i := range 3 * rate {
		s.post("/v1/topics/a/messages", fmt.Sprintf(`{"messages":[{"id":"u%d","role":"user","parts":[{"type":"text","text":"hi"}]}],"whileOpen":"parallel"}`, i)).want(201)
	}
	last := fmt.Sprintf("id: %v", s.answer("user:bob", turn.text("turn.calls.0.approvalId"), `{"approved":false}`).want(200).at("topic.version"))
	for line := range lines {
		if line == last {
			return
		}
	}
	t.Error("the stream ended by what it asked itself")
}

// A token is a secret: nothing that fails logs it.
func TestATokenIsNeverLogged(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.ask("a", "m1")
	s.mint("bob", "backend", `{"subject":"user:bob","topics":["a"]}`)
	s.exec("alter table messages rename to messages_away")
	s.do(call{key: "bob", path: "/v1/topics/a/messages"}).problem(500, "internal")
	s.do(call{key: "nobody", path: "/v1/topics/a/messages", header: map[string]string{"Cookie": TokenCookie + "=" + s.keys["bob"]}}).problem(500, "internal")
	log := s.log.String()
	if !strings.Contains(log, "a request failed") {
		t.Fatalf("logged is %s", log)
	}
	if strings.Contains(log, strings.Split(s.keys["bob"], ".")[2]) {
		t.Error("a token is in the log")
	}
}
