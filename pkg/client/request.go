package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// answerTime bounds one try, beyond the time that a read asks to wait.
	answerTime = 30 * time.Second
	// maxAnswer is the largest answer that is read, in bytes: far above the
	// largest page of messages, and a bound all the same.
	maxAnswer = 64 << 20
)

// request is one route with its values.
type request struct {
	method string
	path   string
	query  url.Values
	header http.Header
	body   any           // sent as JSON; nil: no body
	repeat bool          // the server recognizes it when it comes again
	wait   time.Duration // how long the server may hold it back
}

func get(path string, query url.Values) request {
	return request{method: http.MethodGet, path: path, query: query, repeat: true}
}

// path joins segments, each escaped: ids are opaque and may hold slashes.
func path(segments ...string) string {
	var out strings.Builder
	for _, segment := range segments {
		out.WriteByte('/')
		out.WriteString(url.PathEscape(segment))
	}
	return out.String()
}

// send sends r until it is answered, and reads the answer into a T.
func send[T any](ctx context.Context, c *Client, r request) (T, error) {
	var answer T
	err := c.perform(ctx, r, func(body []byte) error {
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("%s %s: the answer is not what this client knows: %w", r.method, r.path, err)
		}
		return nil
	})
	return answer, err
}

// perform sends r, again where that is safe, and hands over the body of the
// answer.
func (c *Client) perform(ctx context.Context, r request, read func(body []byte) error) error {
	payload, err := encode(r.body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	for try := 1; ; try++ {
		body, err := c.once(ctx, r, payload)
		if err == nil {
			return read(body)
		}
		wait, again := c.again(r, err, try)
		if !again || !pause(ctx, wait) {
			return err
		}
	}
}

// once sends r and reads the whole answer.
func (c *Client) once(ctx context.Context, r request, payload []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime+r.wait)
	defer cancel()
	response, err := c.open(ctx, r, payload)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, &unreached{fmt.Errorf("%s %s: read the answer: %w", r.method, r.path, err)}
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes; ask for fewer items", r.method, r.path, maxAnswer)
	case response.StatusCode >= 300:
		return nil, problem(response, body)
	}
	return body, nil
}

// open sends r once and gives the answer with its body unread.
func (c *Client) open(ctx context.Context, r request, payload []byte) (*http.Response, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(payload))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	for name, values := range r.header {
		request.Header[name] = values
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("Accept", "application/json, application/problem+json, text/event-stream")
	if len(payload) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.actor != "" {
		request.Header.Set("Countersign-Actor", c.actor)
	}
	if c.channel != "" {
		request.Header.Set("Countersign-Channel", c.channel)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &unreached{err}
	}
	return response, nil
}

// encode writes v as JSON and leaves <, > and & alone.
func encode(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write the body: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
