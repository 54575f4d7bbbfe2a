package tool

import (
	"slices"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/egress"
)

const (
	// idleTime is shorter than the time after which common servers close an
	// idle connection (Node: 5 s).
	idleTime = 3 * time.Second
	// maxIdle bounds the idle connections to one target.
	maxIdle = 32
)

// idleConns keeps connections for the next call to the same target. The zero
// value is ready.
type idleConns struct {
	mu     sync.Mutex
	byKey  map[string][]idleConn
	closed bool
}

type idleConn struct {
	conn  *egress.Conn
	timer *time.Timer
}

// take gives the connection that was used last, or nil.
func (p *idleConns) take(key string) *egress.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conns := p.byKey[key]; len(conns) > 0; {
		last := conns[len(conns)-1]
		conns = conns[:len(conns)-1]
		p.set(key, conns)
		last.timer.Stop()
		if last.conn.Usable() {
			return last.conn
		}
		last.conn.Close()
	}
	return nil
}

func (p *idleConns) put(key string, conn *egress.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.byKey[key]) >= maxIdle {
		conn.Close()
		return
	}
	timer := time.AfterFunc(idleTime, func() { p.drop(key, conn) })
	p.set(key, append(p.byKey[key], idleConn{conn, timer}))
}

// drop closes a connection that nobody took.
func (p *idleConns) drop(key string, conn *egress.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.byKey[key], func(c idleConn) bool { return c.conn == conn })
	if i < 0 {
		return
	}
	p.set(key, slices.Delete(p.byKey[key], i, i+1))
	conn.Close()
}

func (p *idleConns) set(key string, conns []idleConn) {
	if p.byKey == nil {
		p.byKey = map[string][]idleConn{}
	}
	if len(conns) == 0 {
		delete(p.byKey, key)
		return
	}
	p.byKey[key] = conns
}

func (p *idleConns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conns := range p.byKey {
		for _, c := range conns {
			c.timer.Stop()
			c.conn.Close()
		}
	}
	p.byKey = nil
}
