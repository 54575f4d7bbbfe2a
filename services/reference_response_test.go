package services

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// response is an event stream that a client reads, frame by frame.
type response struct {
	*compared
	chunks chan string
	seen   []string
}

// respond sends what a client sends. The response's headers are those of the
// reference server.
func (c *compared) respond(node int, method, path, body string) *response {
	c.T.Helper()
	request, err := http.NewRequestWithContext(c.T.Context(), method, fmt.Sprintf("%s%s?sdk=%d", c.API[node].URL, path, c.version), strings.NewReader(body))
	must(c.T, err)
	request.Header.Set("Authorization", "Bearer "+c.Key)
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	must(c.T, err)
	c.T.Cleanup(func() { _ = got.Body.Close() })
	for name, want := range map[string]string{"Cache-Control": "no-cache", "Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "X-Vercel-Ai-Ui-Message-Stream": "v1"} {
		if is := got.Header.Get(name); got.StatusCode != http.StatusOK || is != want {
			problem, _ := io.ReadAll(got.Body)
			c.T.Fatalf("%s %s: %d, %s %q: %s", method, path, got.StatusCode, name, is, problem)
		}
	}
	r := &response{compared: c, chunks: make(chan string, 100)}
	go r.read(got.Body)
	return r
}

// read hands over each chunk, and the end; comments are none. What is framed
// otherwise is handed over as it came.
func (r *response) read(body io.Reader) {
	defer close(r.chunks)
	frames := bufio.NewScanner(body)
	frames.Split(func(data []byte, _ bool) (int, []byte, error) {
		if end := bytes.Index(data, []byte("\n\n")); end >= 0 {
			return end + 2, data[:end], nil
		}
		return 0, nil, nil
	})
	for frames.Scan() {
		if frame := frames.Text(); !strings.HasPrefix(frame, ": ") {
			r.chunks <- strings.TrimPrefix(frame, "data: ")
		}
	}
}

// next reads one chunk; false is the end of the stream.
func (r *response) next() bool {
	r.T.Helper()
	select {
	case c, more := <-r.chunks:
		if more {
			r.seen = append(r.seen, c)
		}
		return more
	case <-r.T.Context().Done():
		r.T.Fatalf("no chunk came after %q", r.seen)
		return false
	}
}

// follow reads until so many steps have begun.
func (r *response) follow(steps int) {
	r.T.Helper()
	for len(r.seen)-len(without(r.seen, "start-step")) < steps {
		if !r.next() {
			r.T.Fatalf("the response ended before step %d: %q", steps, r.seen)
		}
	}
}

// rest gives all chunks of a stream that ends as it must.
func (r *response) rest() []string {
	r.T.Helper()
	for r.next() {
		continue
	}
	n := len(r.seen)
	if n == 0 || r.seen[n-1] != "[DONE]" {
		r.T.Fatalf("the response breaks off: %q", r.seen)
	}
	return r.seen[:n-1]
}
