package bus

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// relay stands between a client and its server and can stop moving bytes,
// as a frozen process or a broken network does.
type relay struct {
	listener net.Listener
	thaw     chan struct{}
	mu       sync.Mutex
	frozen   bool
	conns    []net.Conn
}

func startRelay(t *testing.T, s *testServer) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, thaw: make(chan struct{})}
	t.Cleanup(r.close)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.port))
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, client, upstream)
			r.mu.Unlock()
			go r.copy(upstream, client)
			go r.copy(client, upstream)
		}
	}()
	return r
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if r.isFrozen() {
			<-r.thaw
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (r *relay) isFrozen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.frozen
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

func (r *relay) unfreeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen {
		r.frozen = false
		close(r.thaw)
	}
}

// cut ends the connections and loses what is on its way; new ones may come.
func (r *relay) cut() {
	r.mu.Lock()
	for _, conn := range r.conns {
		conn.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.unfreeze()
}

func (r *relay) close() {
	r.listener.Close()
	r.unfreeze()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		conn.Close()
	}
}

func (r *relay) url() string { return "nats://" + r.listener.Addr().String() }
