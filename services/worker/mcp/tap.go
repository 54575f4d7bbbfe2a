package mcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/pkg/egress"
)

// flight follows one request through the transport: whether it may have left,
// and the raw answer to it.
type flight struct {
	proof egress.Proof // of HTTP

	mu      sync.Mutex
	written bool // of stdio
	id      jsonrpc.ID
	status  int // of HTTP; 0 without an answer
	bodies  []*tapBody
	answer  *jsonrpc.Response
	landed  func()
}

type flightKey struct{}

func (f *flight) attach(ctx context.Context) context.Context {
	return context.WithValue(ctx, flightKey{}, f)
}

func flightOf(ctx context.Context) *flight {
	f, _ := ctx.Value(flightKey{}).(*flight)
	return f
}

// sent is false only if it is proven that nothing left.
func (f *flight) sent() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written || f.proof.Sent()
}

// land ends the flight and gives the raw result or error that came, if any.
func (f *flight) land() (result json.RawMessage, status int, refused error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.landed != nil {
		f.landed()
		f.landed = nil
	}
	for _, body := range f.bodies {
		if f.answer == nil {
			f.answer = body.find(f.id)
		}
	}
	f.bodies = nil
	if f.answer == nil {
		return nil, f.status, nil
	}
	return f.answer.Result, f.status, f.answer.Error
}

// tapConn is the tap on a stream of messages (stdio).
type tapConn struct {
	sdk.Connection
	mu      sync.Mutex
	waiting map[jsonrpc.ID]*flight
}

// Write notes the id of a followed request before the first byte of it.
func (c *tapConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, isRequest := msg.(*jsonrpc.Request)
	if f := flightOf(ctx); f != nil && isRequest && req.IsCall() {
		c.mu.Lock()
		c.waiting[req.ID] = f
		c.mu.Unlock()
		f.mu.Lock()
		f.written, f.id = true, req.ID
		f.landed = func() { c.take(req.ID) }
		f.mu.Unlock()
	}
	return c.Connection.Write(ctx, msg)
}

// Read hands a followed request its answer before the SDK sees it.
func (c *tapConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if resp, ok := msg.(*jsonrpc.Response); ok && err == nil {
		if f := c.take(resp.ID); f != nil {
			f.mu.Lock()
			f.answer = resp
			f.mu.Unlock()
		}
	}
	return msg, err
}

func (c *tapConn) take(id jsonrpc.ID) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.waiting[id]
	delete(c.waiting, id)
	return f
}
