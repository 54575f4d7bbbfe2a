package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// sent is one request as it arrived.
type sent struct {
	method, uri, lastEventID, actor string
	body                            map[string]any
}

// script is a server that answers the requests in order, each in its own way,
// and keeps what it was sent. It stands for the network's bad days: cut
// connections, proxies, overload.
type script struct {
	mu    sync.Mutex
	seen  []sent
	steps []http.HandlerFunc
}

func play(t *testing.T, options []Option, steps ...http.HandlerFunc) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return New(server.URL+"/", "cs_key", options...), s
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := sent{method: r.Method, uri: r.RequestURI, lastEventID: r.Header.Get("Last-Event-ID"),
		actor: r.Header.Get("Countersign-Actor")}
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &got.body)
	s.mu.Lock()
	step := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, got)
	s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer cs_key" {
		http.Error(w, "no key", http.StatusUnauthorized)
		return
	}
	step(w, r)
}

func (s *script) all() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

func cutConnection(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func answer(status int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	jsonType    = "application/json"
	problemType = "application/problem+json; charset=utf-8"
	eventType   = "text/event-stream"
)

func TestADecisionIsRepeatedUnderOneID(t *testing.T) {
	t.Parallel()
	busy := answer(503, problemType, `{"type": "/problems/unavailable", "status": 503}`, "Retry-After", "0")
	c, server := play(t, nil, cutConnection, busy, answer(200, jsonType, `{"result": "already-applied", "approval": {"id": "a"}}`))
	got, err := c.Decide(t.Context(), "a/b", Decision{Approved: false, Reason: "<no>"})
	if err != nil || got.Result != "already-applied" {
		t.Fatalf("Decide = %+v, %v", got, err)
	}
	requests := server.all()
	if len(requests) != 3 {
		t.Fatalf("%d requests", len(requests))
	}
	for _, r := range requests {
		if r.uri != "/v1/approvals/a%2Fb/decision" || r.body["approved"] != false || r.body["reason"] != "<no>" {
			t.Errorf("sent %+v", r)
		}
		if id := r.body["decisionId"]; id == "" || id != requests[0].body["decisionId"] {
			t.Errorf("decisionId %v, first was %v", id, requests[0].body["decisionId"])
		}
	}
}

func TestWhatTheServerWouldNotRecognizeIsSentOnce(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil, cutConnection)
	if _, err := c.OpenTurn(t.Context(), "t", OpenRequest{Continues: "x"}); err == nil {
		t.Error("OpenTurn succeeded")
	}
	if _, err := c.PutKey(t.Context(), "ops", Key{Roles: []string{"admin"}}); err == nil {
		t.Error("PutKey succeeded")
	}
	if n := len(server.all()); n != 2 {
		t.Errorf("%d requests, want one each", n)
	}
}

func TestATurnWithoutAnIdentityGetsOne(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil, cutConnection, answer(201, jsonType, `{}`))
	if _, err := c.RegisterTurn(t.Context(), "t", TurnRequest{}); err != nil {
		t.Fatal(err)
	}
	r := server.all()
	if id, _ := r[0].body["messageId"].(string); !strings.HasPrefix(id, "msg_") || id != r[1].body["messageId"] {
		t.Errorf("messageId %v, then %v", r[0].body["messageId"], r[1].body["messageId"])
	}
}

func TestTriesEnd(t *testing.T) {
	t.Parallel()
	c, server := play(t, []Option{WithTries(3)}, answer(502, "text/html", "<h1>Bad Gateway</h1>"))
	_, err := c.Topic(t.Context(), "t", MinVersion(7))
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Status != 502 || p.Name() != "about:blank" {
		t.Fatalf("Topic = %v", err)
	}
	if r := server.all(); len(r) != 3 || r[0].uri != "/v1/topics/t?minVersion=7" {
		t.Errorf("sent %+v", r)
	}
}

func TestACancelledCallStopsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, server := play(t, nil, func(w http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := c.Approval(ctx, "a", Wait(time.Minute)); !errors.Is(err, context.Canceled) {
		t.Errorf("Approval = %v", err)
	}
	if n := len(server.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestProblemsKeepWhatExplainsThem(t *testing.T) {
	t.Parallel()
	c, _ := play(t, []Option{WithActor("user:bob")}, answer(409, problemType, `{"type": "/problems/already-decided",
		"title": "Already decided", "status": 409, "detail": "user:bob denied it", "approval": {"id": "a", "state": "denied"},
		"errors": [{"pointer": "/approved", "detail": "differs"}]}`))
	_, err := c.Decide(t.Context(), "a", Decision{Approved: true})
	var card Approval
	p, ok := errors.AsType[*Problem](err)
	if !ok || !Is(err, "already-decided") || Is(err, "turn-open") || !p.Member("approval", &card) || card.State != "denied" {
		t.Fatalf("Decide = %v, card %+v", err, card)
	}
	if want := "409 already-decided: user:bob denied it; /approved: differs"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if p.Member("turn", &card) {
		t.Error("a member that is not there was found")
	}
}

func TestABatchHasAnOutcomePerItem(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil, answer(200, jsonType, `{"items": [
		{"approvalId": "a", "status": 200, "result": "applied", "approval": {"id": "a"}},
		{"approvalId": "b", "status": 404, "type": "/problems/not-found", "title": "Not found"}]}`))
	got, err := c.DecideMany(t.Context(), []BatchDecision{
		{ApprovalID: "a", Decision: Decision{Approved: true}}, {ApprovalID: "b", Decision: Decision{DecisionID: "mine"}},
	})
	if err != nil || len(got) != 2 {
		t.Fatalf("DecideMany = %+v, %v", got, err)
	}
	if got[0].Answer.Result != "applied" || got[0].Problem != nil || got[1].Problem.Name() != "not-found" || got[1].Answer != nil {
		t.Errorf("got %+v", got)
	}
	items := server.all()[0].body["decisions"].([]any)
	if a, b := items[0].(map[string]any), items[1].(map[string]any); a["decisionId"] == nil || b["decisionId"] != "mine" {
		t.Errorf("sent %v", items)
	}
}

func TestAllWalksOverPages(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil, answer(200, jsonType, `{"items": [{"id": "1"}, {"id": "2"}], "nextCursor": "c+1"}`),
		answer(200, jsonType, `{"items": [{"id": "3"}]}`))
	var ids []string
	filter := ApprovalFilter{State: "requested", Topic: "a b"}
	for card, err := range All(func(cursor string) (Page[Approval], error) {
		filter.Cursor = cursor
		return c.Approvals(t.Context(), filter)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, card.ID)
	}
	if !slices.Equal(ids, []string{"1", "2", "3"}) {
		t.Errorf("ids %v", ids)
	}
	if r := server.all(); r[1].uri != "/v1/approvals?cursor=c%2B1&state=requested&topic=a+b" {
		t.Errorf("sent %s", r[1].uri)
	}
}

func TestInputIsTheExactBytes(t *testing.T) {
	t.Parallel()
	const input = " {\"b\": 1.0,\t\"a\": 9007199254740993} \n"
	c, _ := play(t, nil, answer(200, jsonType, input))
	if got, err := c.CallInput(t.Context(), "c"); err != nil || string(got) != input {
		t.Errorf("CallInput = %q, %v", got, err)
	}
}

func TestEventsGoOnBehindTheLastStatus(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil,
		answer(503, problemType, `{"type": "/problems/unavailable"}`),
		answer(200, eventType, ": hello\n\nevent: message\ndata: {\"id\": \"m1\",\ndata: \"role\": \"user\"}\n\n"+
			"event: status\nid: 4\ndata: {\"id\": \"t\", \"status\": \"awaiting-approval\", \"version\": 4}\n\nevent: message\ndata: {\"id\": \"cu"),
		cutConnection,
		answer(200, eventType, "event: later\ndata: x\n\nevent: status\r\nid: 5\r\ndata: {\"status\": \"done\", \"version\": 5}\r\n\r\n"),
		answer(404, problemType, `{"type": "/problems/not-found"}`))
	var told []string
	for event, err := range c.Events(t.Context(), "t", FromNow) {
		switch {
		case err != nil:
			told = append(told, err.Error())
		case event.Message != nil:
			told = append(told, "message "+event.Message.ID)
		default:
			told = append(told, event.Status.Status)
		}
	}
	want := []string{"message m1", "awaiting-approval", "done", "404 not-found"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	var from []string
	for _, r := range server.all() {
		from = append(from, r.lastEventID)
	}
	if !slices.Equal(from, []string{"", "", "4", "4", "5"}) {
		t.Errorf("asked from %q", from)
	}
}

func TestEventsStopWhenTheCallerDoes(t *testing.T) {
	t.Parallel()
	c, server := play(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventType)
		_, _ = io.WriteString(w, "event: status\nid: 8\ndata: {\"version\": 8}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	for event, err := range c.Events(t.Context(), "t", 7) {
		if err != nil || event.Version != 8 {
			t.Fatalf("%+v, %v", event, err)
		}
		break
	}
	if r := server.all(); len(r) != 1 || r[0].lastEventID != "7" {
		t.Errorf("sent %+v", r)
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	for try := 1; try < 100; try++ {
		if got := backoff(try); got < firstPause/2 || got > maxPause {
			t.Fatalf("backoff(%d) = %s", try, got)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add("event: a\nid: 1\ndata: x\ndata: y\n\n: c\n\ndata\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := newFrames(strings.NewReader(text), func() {})
		for {
			got, err := in.next()
			if err != nil {
				return
			}
			if strings.ContainsAny(got.event+got.id, "\n") {
				t.Fatalf("a field holds a line break: %+v", got)
			}
		}
	})
}
