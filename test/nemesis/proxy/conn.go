package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Conn is one connection through the proxy.
type Conn struct {
	proxy  *Proxy
	client net.Conn
	bytes  atomic.Int64
	gone   chan struct{} // closed at its end

	mu     sync.Mutex
	target net.Conn // nil until it is reached
	ended  bool
}

// From is the client's address, by which the client knows itself.
func (c *Conn) From() string { return c.client.RemoteAddr().String() }

// Bytes is how many it has passed on, both directions together.
func (c *Conn) Bytes() int64 { return c.bytes.Load() }

// Cut resets both sides.
func (c *Conn) Cut() {
	if c.end() {
		c.proxy.count(func(n *Counts) { n.Cut++ })
	}
}

// end resets both sides, and says whether it was this that did.
func (c *Conn) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.ended = true
	close(c.gone)
	reset(c.client)
	if c.target != nil {
		reset(c.target)
	}
	return true
}

// reached keeps the target's side; false, and it is closed, when the
// connection has ended meanwhile.
func (c *Conn) reached(target net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = target.Close()
		return false
	}
	c.target = target
	return true
}

// reset closes a connection so that the other side sees a reset and not an
// end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// swallow reads what the client sends and says nothing.
func (c *Conn) swallow() {
	_, _ = io.Copy(io.Discard, c.client)
	c.end()
}

// pass passes both directions on until both have ended, or one has broken.
func (c *Conn) pass() {
	var both sync.WaitGroup
	both.Go(func() { c.direction(up, c.client, c.target) })
	both.Go(func() { c.direction(down, c.target, c.client) })
	both.Wait()
	c.close()
}

// close ends the connection in peace: both streams have.
func (c *Conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	close(c.gone)
	_ = c.client.Close()
	_ = c.target.Close()
}
