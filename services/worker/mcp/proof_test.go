package mcp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

// I4: a server that cannot be started or reached is met in preparation, before
// the claim, and is tried again.
func TestI4AServerThatCannotBeReachedIsNoAttempt(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	untrusted := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	t.Cleanup(plain.Close)
	t.Cleanup(untrusted.Close)
	p := newPool(t, nil)
	for name, server := range map[string]model.MCPServer{
		"no program":                          {Name: "x", Command: []string{"/no/such/program"}},
		"no permission":                       {Name: "x", Command: []string{"/dev/null"}},
		"a program that ends at once":         overStdio("silent"),
		"TLS with a peer that does not speak": {Name: "x", URL: "https" + plain.URL[len("http"):]},
		"a certificate that nobody signed":    {Name: "x", URL: untrusted.URL},
	} {
		ready, err := p.Runner(server, toolOf(server, "echo")).Prepare(t.Context())
		if err == nil || errors.Is(err, tool.ErrForGood) || ready != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("%d requests were seen", n)
	}
}

// I4: a server that goes away between preparation and run cannot be connected
// to any more, which proves that the call was not sent.
func TestI4AServerThatGoesAwayBeforeTheRunIsAProof(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	stop := make(chan struct{})
	inner := newServer(stop)
	handler := answering(&calls, func(http.ResponseWriter) {})(sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return inner }, &sdk.StreamableHTTPOptions{Stateless: true}))
	server := httptest.NewUnstartedServer(handler)
	server.Config.SetKeepAlivesEnabled(false) // each request needs a connection of its own
	server.Start()
	target := model.MCPServer{Tenant: "default", Name: "files", URL: server.URL}
	ready, err := newPool(t, nil).Runner(target, toolOf(target, "echo")).Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(stop)
	server.CloseClientConnections()
	server.Close()
	if res := ready.Run(t.Context(), tool.Call{ID: "c1", Input: []byte(`{}`)}); res.Kind != model.ResultNothingSent || calls.Load() != 0 {
		t.Errorf("%+v after %d calls", res, calls.Load())
	}
}
