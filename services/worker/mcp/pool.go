package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
)

// idleTime is how long a session without calls is kept. A server whose
// configuration changed gets a new session; the old one ends this way.
const idleTime = 10 * time.Minute

// Options are what a pool is made of.
type Options struct {
	// Egress is the way to servers with a URL.
	Egress *egress.Egress
	// Log receives the SDK's own remarks; nil discards them.
	Log *slog.Logger
	// ToolsChanged, if set, is called when a server says that its tools
	// changed: it is time to import them again. It must not block.
	ToolsChanged func(tenant model.TenantID, server string)
}

// Pool keeps the sessions with MCP servers. Safe for concurrent use.
type Pool struct {
	options Options
	life    context.Context
	end     context.CancelFunc
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
	closed  bool
	closing sync.WaitGroup
}

// entry is a session or the attempt to have one.
type entry struct {
	key     [sha256.Size]byte
	ready   chan struct{} // closed when session or err is set
	session *session
	err     error
	users   int
	idle    *time.Timer
}

// NewPool makes a pool without sessions. Close ends it.
func NewPool(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{options: o, entries: map[[sha256.Size]byte]*entry{}}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

var errPoolClosed = errors.New("the worker is stopping")

// acquire gives a live session with the server, for which release must be
// called. It waits for a connection until ctx ends; the attempt goes on
// without it, for the next who asks.
func (p *Pool) acquire(ctx context.Context, server model.MCPServer) (*entry, error) {
	var err error
	// A session may have died while it rested: one more attempt, not two.
	for range 2 {
		var e *entry
		if e, err = p.enter(server); err != nil {
			return nil, err
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			p.release(e)
			return nil, ctx.Err()
		}
		if e.err != nil {
			p.release(e)
			return nil, e.err
		}
		err = errSessionClosed
		if e.session.alive() {
			if err = e.session.touch(ctx); err == nil {
				return e, nil
			}
		}
		p.forget(e)
		p.release(e)
	}
	return nil, err
}

// enter counts the caller as a user of the server's entry, making one where
// there is none.
func (p *Pool) enter(server model.MCPServer) (*entry, error) {
	key, err := keyOf(server)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	e := p.entries[key]
	if e == nil {
		e = &entry{key: key, ready: make(chan struct{})}
		p.entries[key] = e
		p.closing.Go(func() { p.connect(e, server) })
	}
	e.users++
	if e.idle != nil {
		e.idle.Stop()
	}
	return e, nil
}

// connect fills an entry, watches its session, and forgets it afterwards.
func (p *Pool) connect(e *entry, server model.MCPServer) {
	e.session, e.err = p.dialer(server).dial(p.life, server)
	close(e.ready)
	if e.err != nil {
		p.forget(e)
		return
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		e.session.close(true)
	}
	<-e.session.dead
	p.forget(e)
}

func (p *Pool) dialer(server model.MCPServer) dialer {
	return dialer{egress: p.options.Egress, log: p.options.Log, changed: func(*session) {
		if p.options.ToolsChanged != nil {
			p.options.ToolsChanged(server.Tenant, server.Name)
		}
	}}
}

// release gives an entry back. The last user of one that was forgotten ends
// its session.
func (p *Pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	if e.users > 0 {
		return
	}
	if p.entries[e.key] != e {
		p.finish(e)
		return
	}
	e.idle = time.AfterFunc(idleTime, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.users == 0 && !p.closed && p.entries[e.key] == e {
			delete(p.entries, e.key)
			p.finish(e)
		}
	})
}

// finish closes the session of an entry that nobody uses; p.mu is held.
func (p *Pool) finish(e *entry) {
	select {
	case <-e.ready:
		if e.session != nil && e.session.alive() {
			p.closing.Go(func() { e.session.close(false) })
		}
	default: // still connecting, and still wanted by the next who asks
	}
}

// forget makes the next user connect anew.
func (p *Pool) forget(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
}

// Close ends all sessions, breaking off what still runs, and waits until
// nothing of them is left.
func (p *Pool) Close() {
	p.end()
	p.mu.Lock()
	p.closed = true
	for _, e := range p.entries {
		if e.idle != nil {
			e.idle.Stop()
		}
		select {
		case <-e.ready:
			if e.session != nil {
				busy := e.users > 0
				p.closing.Go(func() { e.session.close(busy) })
			}
		default: // connect sees that the pool is closed
		}
	}
	p.mu.Unlock()
	p.closing.Wait()
}

// keyOf makes one session per tenant and configuration.
func keyOf(s model.MCPServer) ([sha256.Size]byte, error) {
	data, err := json.Marshal([]any{s.Tenant, s.Name, s.Command, s.Env, s.URL, s.Headers})
	return sha256.Sum256(data), err
}
