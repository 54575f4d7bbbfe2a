package services

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/countersign/countersign/pkg/client"
)

// toolServer is a tool with its own account of what was done: only it says
// what ran.
type toolServer struct {
	*httptest.Server
	mu    sync.Mutex
	calls []toolCall
}

type toolCall struct {
	key, call, attempt, traceparent, body string
}

func newToolServer(t *testing.T, answer http.HandlerFunc) *toolServer {
	t.Helper()
	s := &toolServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.calls = append(s.calls, toolCall{r.Header.Get("Idempotency-Key"), r.Header.Get("Countersign-Call"),
			r.Header.Get("Countersign-Attempt"), r.Header.Get("traceparent"), string(body)})
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *toolServer) ran() []toolCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]toolCall(nil), s.calls...)
}

func (s *toolServer) tool(effect string) client.Tool {
	return client.Tool{Description: "Deletes a file.", Effect: effect, Timeout: "5s",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`),
		HTTP:        &client.HTTPTool{Method: "POST", URL: s.URL}}
}

// backend is a chat backend's webhook: it keeps what was delivered and
// verified.
type backend struct {
	*httptest.Server
	mu        sync.Mutex
	delivered []delivery
	arrived   chan struct{}
}

type delivery struct {
	id, traceparent string
	Type            string `json:"type"`
	Data            struct {
		ContinuationID string `json:"continuationId"`
		Topic          string `json:"topic"`
		Turn           string `json:"turn"`
		MessageID      string `json:"messageId"`
		Version        int64  `json:"version"`
		CallID         string `json:"callId"`
	} `json:"data"`
}

func newBackend(t *testing.T, secret string) *backend {
	t.Helper()
	verifier, err := webhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{arrived: make(chan struct{}, 1024)}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("a webhook whose signature is wrong: %v", err)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		d := delivery{id: r.Header.Get("webhook-id"), traceparent: r.Header.Get("traceparent")}
		if err := json.Unmarshal(body, &d); err != nil {
			t.Errorf("a webhook that cannot be read: %v", err)
		}
		b.mu.Lock()
		b.delivered = append(b.delivered, d)
		b.mu.Unlock()
		b.arrived <- struct{}{}
	}))
	t.Cleanup(b.Close)
	return b
}

func (b *backend) deliveries() []delivery {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]delivery(nil), b.delivered...)
}
