package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxAnswerBytes bounds one answer over HTTP, whatever its form, as the SDK
// bounds a message over stdio.
const maxAnswerBytes = 16 << 20

var errAnswerTooLarge = errors.New("the server's answer is too large")

// tapTransport is the tap on HTTP. It adds the configured headers, ends every
// request with the session, and keeps the answers to followed requests.
type tapTransport struct {
	next    http.RoundTripper
	headers map[string]string
	life    context.Context
}

func (t *tapTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	f, id := t.followed(req)
	ctx, cancel := context.WithCancelCause(req.Context())
	if f != nil {
		ctx = f.proof.Watch(ctx)
	}
	stop := context.AfterFunc(t.life, func() { cancel(errSessionClosed) })
	end := func() { stop(); cancel(nil) }
	req = req.Clone(ctx)
	for name, value := range t.headers {
		if req.Header.Get(name) == "" { // the protocol's own headers stand
			req.Header.Set(name, value)
		}
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	body := &tapBody{ReadCloser: resp.Body, end: end, sse: strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")}
	resp.Body = body
	if f != nil {
		body.keep = true
		f.mu.Lock()
		f.status, f.bodies = resp.StatusCode, append(f.bodies, body)
		if id.IsValid() {
			f.id = id
		}
		f.mu.Unlock()
	}
	return resp, nil
}

// followed gives the flight of a request: of the POST that carries the call,
// and of a GET that resumes its stream, but not of notifications about it.
func (t *tapTransport) followed(req *http.Request) (*flight, jsonrpc.ID) {
	f := flightOf(req.Context())
	if f == nil || req.Method == http.MethodGet {
		return f, jsonrpc.ID{}
	}
	if req.GetBody == nil {
		return nil, jsonrpc.ID{}
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, jsonrpc.ID{}
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, jsonrpc.ID{}
	}
	msg, _ := jsonrpc.DecodeMessage(data)
	if call, ok := msg.(*jsonrpc.Request); ok && call.IsCall() {
		return f, call.ID
	}
	return nil, jsonrpc.ID{}
}

// tapBody bounds an answer's body and, for a followed request, keeps it.
type tapBody struct {
	io.ReadCloser
	end  func()
	keep bool
	sse  bool

	mu   sync.Mutex
	read int64
	data bytes.Buffer
}

func (b *tapBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.read += int64(n)
	if b.keep {
		b.data.Write(p[:n])
	}
	// A stream of events that belongs to no call lives as long as the
	// session; the SDK bounds its events one by one.
	if (b.keep || !b.sse) && b.read > maxAnswerBytes {
		return 0, errAnswerTooLarge
	}
	return n, err
}

func (b *tapBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// find gives the response to a request out of what was read.
func (b *tapBody) find(id jsonrpc.ID) *jsonrpc.Response {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sse {
		return decodeResponse(b.data.Bytes(), id)
	}
	var event []byte
	for line := range bytes.Lines(b.data.Bytes()) {
		line = bytes.TrimRight(line, "\r\n")
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			event = append(append(event, bytes.TrimPrefix(data, []byte(" "))...), '\n')
		}
		if len(line) == 0 {
			if resp := decodeResponse(event, id); resp != nil {
				return resp
			}
			event = nil
		}
	}
	return decodeResponse(event, id)
}

func decodeResponse(data []byte, id jsonrpc.ID) *jsonrpc.Response {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil
	}
	if resp, ok := msg.(*jsonrpc.Response); ok && resp.ID == id {
		return resp
	}
	return nil
}
