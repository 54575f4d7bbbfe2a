package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// dialTimeout bounds connecting to the target, which is on this machine.
const dialTimeout = 10 * time.Second

// Proxy is one listening address and everything that came through it.
type Proxy struct {
	address, target string

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	faults   Faults
	changed  chan struct{} // closed by the next change of faults
	conns    map[*Conn]struct{}
	counts   Counts
	closed   bool

	all sync.WaitGroup
}

// Listen puts a proxy at an address in front of a target. "127.0.0.1:0" picks
// a free port.
func Listen(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{address: listener.Addr().String(), target: target, listener: listener,
		changed: make(chan struct{}), conns: map[*Conn]struct{}{}}
	p.all.Go(func() { p.accept(listener) })
	return p, nil
}

// Addr is where it listens: host:port.
func (p *Proxy) Addr() string { return p.address }

// Set puts faults in the place of those that were there. An error means that
// the address could not be listened at again after it had been refused.
func (p *Proxy) Set(f Faults) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("the proxy is closed")
	}
	if err := p.refuse(f.Refuse); err != nil {
		return err
	}
	p.faults = f
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// Heal takes all faults away; what was held back is passed on.
func (p *Proxy) Heal() error { return p.Set(Faults{}) }

// refuse closes the listener or opens it again.
func (p *Proxy) refuse(wanted bool) error {
	switch {
	case wanted && p.listener != nil:
		p.counts.Refused++
		err := p.listener.Close()
		p.listener = nil
		return err
	case !wanted && p.listener == nil:
		listener, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("listen again: %w", err)
		}
		p.listener = listener
		p.all.Go(func() { p.accept(listener) })
	}
	return nil
}

// Cut resets all connections, both sides of each, and says how many. New ones
// are taken as before.
func (p *Proxy) Cut() int {
	conns := p.Conns()
	for _, c := range conns {
		c.Cut()
	}
	return len(conns)
}

// Conns are the connections of now.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*Conn, 0, len(p.conns))
	for c := range p.conns {
		out = append(out, c)
	}
	return out
}

// Counts is what happened so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Close stops listening, resets what is open, and returns when all of it is
// gone.
func (p *Proxy) Close() error {
	p.mu.Lock()
	listener := p.listener
	p.listener, p.closed = nil, true
	p.mu.Unlock()
	var err error
	if listener != nil {
		err = listener.Close()
	}
	for _, c := range p.Conns() {
		c.end()
	}
	p.all.Wait()
	return err
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // it was closed
		}
		p.all.Go(func() { p.serve(client) })
	}
}

// serve takes one connection from its beginning to its end.
func (p *Proxy) serve(client net.Conn) {
	c, swallow := p.open(client)
	if c == nil {
		_ = client.Close()
		return
	}
	defer p.forget(c)
	if swallow {
		c.swallow()
		return
	}
	target, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil || !c.reached(target) {
		c.end() // a target that is away looks like one that hangs up
		return
	}
	c.pass()
}

// open makes a connection known; nil when the proxy is closed.
func (p *Proxy) open(client net.Conn) (c *Conn, swallow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.counts.Connections++
	if p.faults.Swallow {
		p.counts.Swallowed++
	}
	c = &Conn{proxy: p, client: client, gone: make(chan struct{})}
	p.conns[c] = struct{}{}
	return c, p.faults.Swallow
}

func (p *Proxy) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// now gives the faults, and what tells when they have changed.
func (p *Proxy) now() (Faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

func (p *Proxy) count(what func(*Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what(&p.counts)
}
