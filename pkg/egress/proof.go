package egress

import (
	"context"
	"net"
	"net/http/httptrace"
	"sync"
)

// Proof watches the requests of one context through [Egress.HTTPClient] and
// tells afterwards whether any byte of them may have left. The zero value is
// ready.
type Proof struct {
	mu    sync.Mutex
	conns []watched
	blind bool
}

type watched struct {
	conn *meteredConn
	base int64
}

// Watch gives the context to send the requests with.
func (p *Proof) Watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { p.add(info.Conn) },
	})
}

func (p *Proof) add(conn net.Conn) {
	if secured, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secured.NetConn()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	metered, ok := conn.(*meteredConn)
	if !ok {
		p.blind = true // not one of ours: nothing can be proven
		return
	}
	p.conns = append(p.conns, watched{metered, metered.written.Load()})
}

// Sent is false only if it is proven that no byte of a request left. It is
// meaningful after the requests have failed.
func (p *Proof) Sent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.conns {
		if w.conn.written.Load() != w.base {
			return true
		}
	}
	return p.blind
}
