package httpapi

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// follow opens a topic's events and gives what comes, line by line.
func (s *system) follow(key, path string) (*http.Response, <-chan string) {
	s.t.Helper()
	r := must(http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil))(s.t)
	r.Header.Set("Authorization", "Bearer "+s.keys[key])
	response := must(http.DefaultClient.Do(r))(s.t)
	s.t.Cleanup(func() { response.Body.Close() })
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(response.Body)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return response, lines
}

func TestEventsTellOfADecisionAndEndWithTheKey(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	turn := s.ask("a/b", "m1")
	s.keys["guest"] = s.put("/v1/keys/guest", `{"roles":["viewer"]}`).want(201).text("key")
	response, lines := s.follow("guest", "/v1/topics/a%2Fb/events")
	if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", response.StatusCode, got)
	}
	until := func(want string) (seen []string) {
		t.Helper()
		for line := range lines {
			seen = append(seen, line)
			if line == want {
				return seen
			}
		}
		t.Fatalf("the stream ended before %q: %q", want, seen)
		return nil
	}
	until("id: 1")
	s.answer("user:bob", turn.text("turn.calls.0.approvalId"), `{"approved":false,"reason":"no"}`).want(200)
	told := strings.Join(until("id: 2"), "\n")
	if !strings.Contains(told, `"state":"output-denied"`) || strings.Index(told, "event: message") > strings.Index(told, "event: status") {
		t.Errorf("told: %s", told)
	}
	s.do(call{method: http.MethodDelete, path: "/v1/keys/guest"}).want(204)
	for range lines { // ends, or the test runs out of time
	}
}

// One trace leads from the request that registers to the run and beyond: the
// turn keeps it.
func TestATurnKeepsTheTraceOfItsRegistration(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	c := register(`{"messageId":"m1","parts":[]}`)
	c.header = map[string]string{"traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}
	s.do(c).want(201)
	if n := s.number("select count(*) from turns where traceparent like '00-" + trace + "-%-01'"); n != 1 {
		t.Error("the turn has another trace")
	}
}

func TestAKeyThatAsksTooOftenIsToldToWait(t *testing.T) {
	t.Parallel()
	r := newRates(3)
	for range 3 {
		if !r.allow("a") {
			t.Fatal("a second's worth may come at once")
		}
	}
	if r.allow("a") || !r.allow("b") {
		t.Error("the bound is per key")
	}
	if p := problemOf(errRateLimited); p.Status != 429 || p.Type != "/problems/rate-limited" {
		t.Errorf("%+v", p)
	}
}
