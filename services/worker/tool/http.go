package tool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
)

// HTTP executes HTTP tools. It keeps a few idle connections; Close lets go of
// them.
type HTTP struct {
	egress *egress.Egress
	idle   idleConns
}

// NewHTTP makes an executor whose connections all go through e.
func NewHTTP(e *egress.Egress) *HTTP { return &HTTP{egress: e} }

// Close closes the idle connections; running calls are left alone.
func (h *HTTP) Close() { h.idle.close() }

// Runner gives the executor of a tool, whose definition must have an HTTP
// target.
func (h *HTTP) Runner(t model.Tool) Runner { return &httpRunner{http: h, tool: t} }

type httpRunner struct {
	http *HTTP
	tool model.Tool
}

// Prepare checks the target and has a connection to it. A call that must not
// be repeated gets a new one, always: an idle connection may be closed by the
// other side in the moment it is used, and nobody could tell whether the
// request was seen.
func (r *httpRunner) Prepare(ctx context.Context) (Ready, error) {
	target, err := checkTarget(r.tool)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForGood, err)
	}
	ready := &httpReady{http: r.http, tool: r.tool, target: target}
	ready.key = string(r.tool.Tenant) + " " + target.Scheme + " " + egress.Address(target)
	ready.reuse = r.tool.Definition.Effect != model.EffectUnsafe && r.tool.Definition.Effect != ""
	if ready.reuse {
		ready.conn = r.http.idle.take(ready.key)
	}
	if ready.conn == nil {
		ready.conn, err = r.http.egress.Connect(ctx, target)
	}
	switch {
	case errors.Is(err, egress.ErrRefused):
		return nil, fmt.Errorf("%w: %w", ErrForGood, err)
	case err != nil:
		return nil, err
	}
	return ready, nil
}

// reserved are the headers that a tool's configuration cannot set: they are
// ours, or they frame the message.
var reserved = []string{
	"Content-Type", "Idempotency-Key", "Countersign-Call", "Countersign-Attempt", "Traceparent", "Tracestate",
	"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Upgrade", "Expect",
}

func checkTarget(t model.Tool) (*url.URL, error) {
	target := t.Definition.HTTP
	if target == nil {
		return nil, errors.New("the tool has no HTTP target")
	}
	u, err := egress.Check(target.URL)
	if err != nil {
		return nil, err
	}
	if m := method(target); !httpguts.ValidHeaderFieldName(m) || m == http.MethodConnect {
		return nil, fmt.Errorf("the tool's HTTP method %q cannot be used", m)
	}
	for name, value := range t.Secrets.Headers {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || slices.Contains(reserved, http.CanonicalHeaderKey(name)):
			return nil, fmt.Errorf("the tool's header %q cannot be set; remove it", name)
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, fmt.Errorf("the value of the tool's header %q has characters that no header can carry", name)
		}
	}
	return u, nil
}

func method(t *model.HTTPTarget) string {
	if t.Method == "" {
		return http.MethodPost
	}
	return strings.ToUpper(t.Method)
}
