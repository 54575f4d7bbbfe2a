package store

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

// swallower passes bytes on to a server until it is told to swallow them.
type swallower struct {
	mu       sync.Mutex
	swallows bool
	conns    []net.Conn
}

func (s *swallower) swallow() { s.mu.Lock(); defer s.mu.Unlock(); s.swallows = true }

// heal passes on again what comes over new connections; of the old ones bytes
// are missing.
func (s *swallower) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swallows = false
	for _, c := range s.conns {
		c.Close()
	}
}

func (s *swallower) write(to net.Conn, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.swallows {
		return nil
	}
	_, err := to.Write(b)
	return err
}

func (s *swallower) join(a, b net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, a, b)
	go s.pass(a, b)
	go s.pass(b, a)
}

// between listens before a database and gives its URL there.
func (s *swallower) between(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if conn, err := net.Dial("tcp", server); err == nil {
				s.join(client, conn)
			}
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func (s *swallower) pass(from, to net.Conn) {
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil || s.write(to, b[:n]) != nil {
			return
		}
	}
}

// A database that is reached but does not answer makes nobody wait for ever,
// neither with a connection nor for one, and is used again when it answers.
func TestASilentDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	var net swallower
	s, err := New(net.between(t, testservers.Database(t, Migrate)), Options{MaxConns: 2, Configure: func(c *pgxpool.Config) {
		if c.ConnConfig.Tracer != usual {
			t.Error("connections are not bounded")
		}
		c.ConnConfig.Tracer = bounds{acquire: 200 * time.Millisecond, statement: 300 * time.Millisecond}
		c.ConnConfig.ConnectTimeout = 500 * time.Millisecond
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	turn := register(t, s, registration("t", asking(tool, "a"))).Turn
	net.swallow()
	atOnce(6, func(int) {
		if _, err := s.Card(context.Background(), tenant, turn.Calls[0].Approval.ID); !errors.Is(err, model.ErrUnavailable) {
			t.Errorf("a card: %v", err)
		}
	})
	if _, err := s.ExpireApprovals(t.Context()); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("a sweep: %v", err)
	}
	net.heal()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := s.Card(t.Context(), tenant, turn.Calls[0].Approval.ID)
		if err == nil {
			break
		}
		if !errors.Is(err, model.ErrUnavailable) || time.Now().After(deadline) {
			t.Fatalf("when it answers again: %v", err)
		}
	}
}
