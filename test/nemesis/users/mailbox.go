package users

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
)

// mailbox is where continuations arrive, by webhook and by JetStream. It does
// not verify signatures: a hint of a continuation is one, whoever sends it.
type mailbox struct {
	url    string
	server *http.Server
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	waiting map[string]chan struct{} // by turn
	N       int                      // deliveries
}

// sinkName is the JetStream sink of the run.
const sinkName = "nemesis"

func newMailbox(w *World, b *bus.Bus) (*mailbox, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mailbox{waiting: map[string]chan struct{}{}}
	if m.url, err = w.site.Backend(listener.Addr().String()); err != nil {
		return nil, err
	}
	m.server = &http.Server{Handler: m}
	m.all.Go(func() { _ = m.server.Serve(listener) })
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(context.Background())
	for _, t := range w.tenants {
		m.all.Go(func() {
			_ = b.ConsumeContinuations(ctx, bus.ConsumeContinuationsOptions{
				Tenant: model.TenantID(t.name), Sink: sinkName, Durable: "backend", Slots: bus.NewSlots(64),
			}, func(d bus.ContinuationDelivery) {
				m.post(d.Body)
				d.Settle(nil)
			})
		})
	}
	return m, nil
}

// ServeHTTP is the webhook.
func (m *mailbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		m.post(body)
	}
}

// post tells whoever waits for a turn's continuation.
func (m *mailbox) post(body []byte) {
	var event struct {
		Type string
		Data struct{ Turn string }
	}
	if json.Unmarshal(body, &event) != nil || event.Type != "continuation.ready" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.N++
	c := m.of(event.Data.Turn)
	select {
	case c <- struct{}{}:
	default:
	}
}

func (m *mailbox) of(turn string) chan struct{} {
	c := m.waiting[turn]
	if c == nil {
		c = make(chan struct{}, 1)
		m.waiting[turn] = c
	}
	return c
}

// expect gives what is filled when a turn's continuation is delivered.
func (m *mailbox) expect(turn string) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(turn)
}

// forget drops a turn that went on.
func (m *mailbox) forget(turn string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, turn)
}

func (m *mailbox) close() {
	m.cancel()
	_ = m.server.Close()
	m.all.Wait()
}
