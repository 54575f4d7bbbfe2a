package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/propagation"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
)

type httpReady struct {
	http   *HTTP
	tool   model.Tool
	target *url.URL
	key    string
	reuse  bool
	conn   *egress.Conn // nil once used or released
}

// Release keeps the connection for another call where that is allowed.
func (r *httpReady) Release() {
	if r.conn == nil {
		return
	}
	if r.reuse && r.conn.Usable() {
		r.http.idle.put(r.key, r.conn)
	} else {
		r.conn.Close()
	}
	r.conn = nil
}

// Run sends the request on the prepared connection, once.
func (r *httpReady) Run(ctx context.Context, call Call) model.Result {
	if r.conn == nil {
		return nothingSent("the prepared connection was given back")
	}
	defer r.Release()
	resp, err := r.conn.RoundTrip(r.request(ctx, call))
	if err != nil {
		if !r.conn.Sent() {
			return nothingSent(fmt.Sprintf("The connection to %s broke before anything was sent.", r.target.Host))
		}
		return unknown(why(ctx, err, "before the tool answered"))
	}
	defer resp.Body.Close()
	return classify(ctx, resp)
}

func (r *httpReady) request(ctx context.Context, call Call) *http.Request {
	req := (&http.Request{
		Method: method(r.tool.Definition.HTTP),
		URL:    r.target,
		Host:   r.target.Host,
		Header: http.Header{},
		Body:   http.NoBody,
		Close:  !r.reuse,
	}).WithContext(ctx)
	if len(call.Input) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(call.Input))
		req.ContentLength = int64(len(call.Input))
	}
	for name, value := range r.tool.Secrets.Headers {
		req.Header.Set(name, value)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "Countersign")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", call.IdempotencyKey)
	req.Header.Set("Countersign-Call", string(call.ID))
	req.Header.Set("Countersign-Attempt", strconv.FormatInt(call.Attempt, 10))
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	return req
}

// classify is the rule of the package comment.
func classify(ctx context.Context, resp *http.Response) model.Result {
	switch status := resp.StatusCode; {
	case status >= 200 && status < 300:
		output, read, err := ReadOutput(resp.Body)
		if err != nil {
			return unknown(why(ctx, err, fmt.Sprintf("after %d bytes of a %d answer", read, status)))
		}
		return succeeded(output)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests:
	case status >= 400 && status < 500:
		if said := Text(beginning(resp.Body)); said != "" {
			return failed(said)
		}
		return failed("The tool answered " + statusLine(status) + ".")
	}
	reason := "The tool answered " + statusLine(resp.StatusCode) + ", which does not say whether it was done."
	if said := text(beginning(resp.Body), 500); said != "" && resp.StatusCode != http.StatusSwitchingProtocols {
		reason += " It said: " + said
	}
	return unknown(reason)
}

// beginning reads as much of a body as a text can use. The status is the
// answer; a body that breaks off takes nothing from it.
func beginning(body io.Reader) []byte {
	if _, upgraded := body.(io.Writer); upgraded {
		return nil // a connection that has no end
	}
	said, _ := io.ReadAll(io.LimitReader(body, maxTextBytes+1))
	return said
}

func statusLine(status int) string {
	if name := http.StatusText(status); name != "" {
		return strconv.Itoa(status) + " " + name
	}
	return strconv.Itoa(status)
}

// why words what went wrong on the way, for the person who has to find out
// what happened.
func why(ctx context.Context, err error, when string) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "The time for the tool ran out " + when + "."
	case ctx.Err() != nil:
		return "The attempt was cancelled " + when + "."
	}
	return "The connection broke " + when + ": " + text([]byte(err.Error()), 300)
}
