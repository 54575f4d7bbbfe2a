package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
)

// Conn is one connection to one target: made before the request, so that
// everything that can fail without an effect has failed by then. It never
// repeats a request. Not for concurrent use.
type Conn struct {
	client  *http.ClientConn
	metered *meteredConn
	base    int64
}

type dialedKey struct{}

// Connect resolves, checks and connects, and for https shakes hands. Errors:
// [ErrRefused], or whatever stood in the way; nothing of a request was sent.
func (e *Egress) Connect(ctx context.Context, target *url.URL) (*Conn, error) {
	c := &Conn{}
	ctx = context.WithValue(ctx, dialedKey{}, func(m *meteredConn) { c.metered = m })
	client, err := e.transport.NewClientConn(ctx, target.Scheme, Address(target))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target.Host, err)
	}
	c.client = client
	return c, nil
}

// Address gives host:port of a URL, with the scheme's port where it has none.
func Address(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return net.JoinHostPort(target.Hostname(), port)
}

// RoundTrip sends the request, once. The answer's body must be read to its
// end and closed before the connection can be used again.
func (c *Conn) RoundTrip(req *http.Request) (*http.Response, error) {
	c.base = c.metered.written.Load()
	if err := c.client.Err(); err != nil {
		return nil, fmt.Errorf("the connection is closed: %w", err)
	}
	return c.client.RoundTrip(req)
}

// Sent tells whether any byte of the last request may have left. False is a
// proof.
func (c *Conn) Sent() bool { return c.metered.written.Load() != c.base }

// Usable tells whether another request can be sent.
func (c *Conn) Usable() bool { return c.client.Err() == nil && c.client.Available() > 0 }

// Close closes the connection.
func (c *Conn) Close() { _ = c.client.Close() }

// meteredConn counts bytes before they are handed to the kernel, so that a
// count that stands still after the connection was closed is a proof.
type meteredConn struct {
	net.Conn
	written atomic.Int64
}

func (c *meteredConn) Write(p []byte) (int, error) {
	c.written.Add(int64(len(p)))
	n, err := c.Conn.Write(p)
	if n == 0 && errors.Is(err, net.ErrClosed) {
		c.written.Add(-int64(len(p))) // we had closed it: the kernel never saw them
	}
	return n, err
}
