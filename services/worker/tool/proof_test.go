package tool_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

// I4: what stands in the way of the first byte is met in preparation, before
// the claim, whatever the effect; and none of it is a reason to give the call
// up.
func TestI4WhatFailsBeforeTheFirstByteIsNoAttempt(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) })
	plain, untrusted := httptest.NewServer(count), httptest.NewTLSServer(count)
	t.Cleanup(plain.Close)
	t.Cleanup(untrusted.Close)
	h := newHTTP(t)
	for name, url := range map[string]string{
		"a refused connection":                "http://" + closedAddress(t),
		"a name that does not resolve":        "http://name.invalid/",
		"a certificate that nobody signed":    untrusted.URL,
		"TLS with a peer that does not speak": "https" + plain.URL[len("http"):],
		"a peer that hangs up on TLS":         "https://" + scripted(t, func(c net.Conn) { _ = c.Close() }),
		"a peer that is silent on TLS":        "https://" + scripted(t, func(net.Conn) {}),
	} {
		for _, effect := range []model.Effect{model.EffectUnsafe, model.EffectKeyed, model.EffectIdempotent, model.EffectRead} {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			ready, err := h.Runner(toolAt(url, effect)).Prepare(ctx)
			cancel()
			if err == nil || errors.Is(err, tool.ErrForGood) || ready != nil {
				t.Errorf("%s, %s: %v", name, effect, err)
			}
		}
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests were seen", n)
	}
}

// I4: a connection that its peer cut between preparation and run proves that
// nothing was sent, once the cut was noticed; before that nobody can tell, and
// the run does not claim to.
func TestI4AConnectionCutBeforeTheRunIsAProof(t *testing.T) {
	t.Parallel()
	prepared, cut := make(chan struct{}), make(chan struct{})
	address := scripted(t, func(c net.Conn) {
		<-prepared
		_ = c.(*net.TCPConn).SetLinger(0) // a reset
		_ = c.Close()
		cut <- struct{}{}
	})
	h := newHTTP(t)
	for deadline := time.Now().Add(20 * time.Second); ; {
		ready, err := h.Runner(toolAt("http://"+address, model.EffectUnsafe)).Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		prepared <- struct{}{}
		<-cut
		res := ready.Run(t.Context(), aCall)
		if res.Kind == model.ResultNothingSent {
			return
		}
		if res.Kind != model.ResultUnknown || time.Now().After(deadline) {
			t.Fatalf("%+v", res)
		}
	}
}

// closedAddress is one at which nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// scripted accepts connections, does something with each, and keeps it open
// until the test ends.
func scripted(t *testing.T, script func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go script(c)
		}
	}()
	return l.Addr().String()
}
