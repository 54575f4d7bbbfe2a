package sink

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func newSecret() string {
	key := make([]byte, 24)
	_, _ = rand.Read(key)
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// received is what a receiver saw of one delivery.
type received struct {
	header http.Header
	body   []byte
}

// receiver answers every delivery with respond and passes on what it saw.
func receiver(t *testing.T, respond http.HandlerFunc) (string, <-chan received) {
	t.Helper()
	seen := make(chan received, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- received{r.Header, body}
		respond(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func webhook(t *testing.T) *Webhook {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return NewWebhook(&http.Client{Transport: transport})
}

func failure(t *testing.T, err error) *Failure {
	t.Helper()
	found, ok := errors.AsType[*Failure](err)
	if !ok {
		t.Fatalf("Send = %v, want a *Failure", err)
	}
	return found
}

func TestDeliveryVerifiesWithTheStandardLibrary(t *testing.T) {
	t.Parallel()
	url, seen := receiver(t, status(http.StatusNoContent))
	d := Delivery{ID: "0193-turn", URL: url, Secrets: []string{newSecret()}, Body: []byte(`{"type": "continuation.ready"}`),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	if err := webhook(t).Send(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	verify(t, d.Secrets[0], got)
	for name, want := range map[string]string{
		"webhook-id": d.ID, "traceparent": d.Traceparent, "content-type": "application/json",
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	if string(got.body) != string(d.Body) {
		t.Errorf("body is %s", got.body)
	}
}

func verify(t *testing.T, secret string, got received) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(got.body, got.header); err != nil {
		t.Errorf("the receiver cannot verify: %v", err)
	}
}

func TestRotationSignsWithBothSecrets(t *testing.T) {
	t.Parallel()
	url, seen := receiver(t, status(http.StatusOK))
	d := Delivery{ID: "turn", URL: url, Secrets: []string{newSecret(), newSecret()}, Body: []byte("{}")}
	if err := webhook(t).Send(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got := <-seen
	verify(t, d.Secrets[0], got)
	verify(t, d.Secrets[1], got)
	stranger, _ := standardwebhooks.NewWebhook(newSecret())
	if stranger.Verify(got.body, got.header) == nil {
		t.Error("a third secret verifies too")
	}
}

func TestTheIDStaysOverTries(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	url, seen := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if tries.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	d := Delivery{ID: "turn.2", URL: url, Secrets: []string{newSecret()}, Body: []byte("{}")}
	sender := webhook(t)
	if got := failure(t, sender.Send(t.Context(), d)); got.Status != 500 {
		t.Errorf("status %d", got.Status)
	}
	if err := sender.Send(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := <-seen
		verify(t, d.Secrets[0], got)
		if id := got.header.Get("webhook-id"); id != "turn.2" {
			t.Errorf("webhook-id is %q", id)
		}
	}
}

func TestOnlySuccessIsReceived(t *testing.T) {
	t.Parallel()
	for code, reason := range map[int]string{
		400: "400 Bad Request", 404: "404", 410: "wants no more", 429: "429", 500: "500", 503: "503", 307: "not followed",
	} {
		url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		})
		got := failure(t, webhook(t).Send(t.Context(), Delivery{ID: "t", URL: url, Secrets: []string{newSecret()}}))
		if got.Status != code || !strings.Contains(got.Reason, reason) {
			t.Errorf("%d: got %d %q", code, got.Status, got.Reason)
		}
		if code == 429 && got.RetryAfter != 7*time.Second {
			t.Errorf("retry after %s", got.RetryAfter)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	target, reached := receiver(t, status(http.StatusOK))
	url, _ := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	})
	failure(t, webhook(t).Send(t.Context(), Delivery{ID: "t", URL: url, Secrets: []string{newSecret()}}))
	select {
	case <-reached:
		t.Error("the redirect was followed")
	default:
	}
}

func TestASlowReceiverIsCutOff(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	url, seen := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := failure(t, webhook(t).Send(ctx, Delivery{ID: "t", URL: url, Secrets: []string{newSecret()}}))
	<-seen
	if got.Status != 0 || !strings.Contains(got.Reason, "did not answer") || !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("got %d %q", got.Status, got.Reason)
	}
}

func TestAnEndlessAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	written := make(chan int, 1)
	url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		total, chunk := 0, make([]byte, 1<<20)
		for {
			n, err := w.Write(chunk)
			if total += n; err != nil || total > 1<<30 {
				written <- total
				return
			}
		}
	})
	if err := webhook(t).Send(t.Context(), Delivery{ID: "t", URL: url, Secrets: []string{newSecret()}}); err != nil {
		t.Fatal(err)
	}
	if total := <-written; total > 1<<29 {
		t.Errorf("%d bytes were taken", total)
	}
}

func TestFailuresKeepSecretsAndURLs(t *testing.T) {
	t.Parallel()
	sender := webhook(t)
	for name, d := range map[string]Delivery{
		"closed port":   {ID: "t", URL: "http://127.0.0.1:1/?token=hush", Secrets: []string{newSecret()}},
		"bad URL":       {ID: "t", URL: "http://hush\x7f", Secrets: []string{newSecret()}},
		"bad scheme":    {ID: "t", URL: "ftp://hush/", Secrets: []string{newSecret()}},
		"bad secret":    {ID: "t", URL: "http://127.0.0.1:1/", Secrets: []string{"whsec_hush!"}},
		"no secret":     {ID: "t", URL: "http://127.0.0.1:1/"},
		"bad id (CRLF)": {ID: "t\r\nhush: 1", URL: "http://127.0.0.1:1/", Secrets: []string{newSecret()}},
	} {
		got := failure(t, sender.Send(t.Context(), d))
		if got.Reason == "" || strings.Contains(got.Reason, "hush") {
			t.Errorf("%s: reason is %q", name, got.Reason)
		}
	}
}

func TestBackoffDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	for attempt, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 11: 2048 * time.Second,
		12: time.Hour, 100: time.Hour,
	} {
		for range 100 {
			got := Backoff(attempt)
			if got < want*8/10 || got > want*12/10 {
				t.Fatalf("Backoff(%d) = %s, want %s ± 20 %%", attempt, got, want)
			}
		}
	}
}
