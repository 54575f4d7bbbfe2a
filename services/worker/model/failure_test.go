package model

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/pkg/egress"
)

// What a provider's failure is taken for, and what is repeated of it: never
// the key.
func TestFailuresOfAProvider(t *testing.T) {
	t.Parallel()
	const key = "sk-secret"
	for name, test := range map[string]struct {
		answer  scripted.Answer
		want    string
		forGood bool
		after   time.Duration
	}{
		"busy":             {scripted.Answer{Status: 429, RetryAfter: "7", Body: `{"error":{"message":"slow"}}`}, "429: slow", false, 7 * time.Second},
		"busy for long":    {scripted.Answer{Status: 503, RetryAfter: "86400"}, "503", false, longestPause},
		"broken":           {scripted.Answer{Status: 500, Body: "<html>"}, "500", false, 0},
		"not allowed":      {scripted.Answer{Status: 401, Body: `{"error":{"message":"bad key sk-secret\n!"}}`}, "401: bad key *** !", true, 0},
		"not understood":   {scripted.Answer{Status: 400, Body: `{"error":{"message":"` + strings.Repeat("x", 1000) + `"}}`}, "…", true, 0},
		"somewhere else":   {scripted.Answer{Status: 302}, "broke off", false, 0},
		"no JSON":          {scripted.Answer{Events: []scripted.Event{{Data: "{"}}}, "the connection failed", false, 0},
		"an error amid it": {scripted.Answer{Events: []scripted.Event{{Data: `{"error":{"message":"full of sk-secret"}}`}}}, "full of ***", false, 0},
		"cut":              {scripted.Answer{Events: append(scripted.Say("a"), scripted.Event{Cut: true})}, "the connection failed", false, 0},
	} {
		server := httptest.NewServer(scripted.New(func(scripted.Request) scripted.Answer { return test.answer }))
		t.Cleanup(server.Close)
		got := askOnce(t, []string{"127.0.0.1"}, server.URL, key)
		if !strings.Contains(got.Text, test.want) || got.ForGood != test.forGood || got.After != test.after || strings.Contains(got.Text, key) {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got.Text) > maxReason+100 {
			t.Errorf("%s: %d bytes", name, len(got.Text))
		}
	}
	refused := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refused.Close)
	if got := askOnce(t, nil, refused.URL, key); !got.ForGood || !strings.Contains(got.Text, "COUNTERSIGN_ALLOW_TARGETS") {
		t.Errorf("an address that may not be called: %+v", got)
	}
}

// askOnce asks once, and gives the failure.
func askOnce(t *testing.T, allow []string, url, key string) *Failure {
	t.Helper()
	out, err := egress.NewEgress(allow)
	must(t, err)
	p, err := NewProvider(out.HTTPClient(0), url, key)
	must(t, err)
	tr := newTranslation(request{}, &recorder{})
	for d := range p.stream(t.Context(), request{model: "m"}) {
		if d.err != nil {
			return failureOf(d.err, key)
		}
		if _, err := tr.take(t.Context(), d); err != nil {
			return failureOf(err, key)
		}
	}
	return failureOf(tr.end(t.Context()), key)
}

// Nothing of a provider is taken from the environment of the process.
func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "ftp://x", "https://user:password@x/v1", "https://"} {
		if _, err := NewProvider(http.DefaultClient, url, ""); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
