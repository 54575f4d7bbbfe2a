package users

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/site"
)

// Options say how busy the users are.
type Options struct {
	Seed          uint64
	Conversations int           // at once
	Load          time.Duration // how long new ones begin
}

// World is all users of a run.
type World struct {
	o       Options
	site    *site.Site
	history *history.Log
	tenants []tenant
	http    [2]*http.Client
	mail    *mailbox

	next    atomic.Uint64 // of conversations
	running sync.WaitGroup

	mu      sync.Mutex
	seen    map[string][]string // some approvals of each tenant
	watched []*Stream
}

type tenant struct {
	name, key string
	chat      string // the key of its chats, which the model loop answers
}

// New makes the tenants with their keys, tools and policies.
func New(ctx context.Context, s *site.Site, b *bus.Bus, h *history.Log, o Options) (*World, error) {
	w := &World{o: o, site: s, history: h, seen: map[string][]string{}}
	for i := range w.http {
		w.http[i] = &http.Client{Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: 32, IdleConnTimeout: 10 * time.Second,
		}}
	}
	for _, name := range []string{"acme", "umbrella"} {
		t := tenant{name, store.NewKey(), store.NewKey()}
		if err := s.Store.EnsureTenant(ctx, model.TenantID(name)); err != nil {
			return nil, err
		}
		everything := store.KeyRow{Name: "all", ActsFor: true,
			Roles: []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer}}
		if _, err := s.Store.PutKey(ctx, model.TenantID(name), everything, t.key, "nemesis", "test"); err != nil {
			return nil, err
		}
		chats := store.KeyRow{Name: "chat", Roles: []model.Role{model.RoleBackend}, Sink: &model.Sink{Type: model.SinkModel, AcceptWithin: 3 * time.Second}}
		if _, err := s.Store.PutKey(ctx, model.TenantID(name), chats, t.chat, "nemesis", "test"); err != nil {
			return nil, err
		}
		if err := w.configure(ctx, t); err != nil {
			return nil, err
		}
		w.tenants = append(w.tenants, t)
	}
	var err error
	w.mail, err = newMailbox(w, b)
	return w, err
}

// Run keeps conversations going until load ends, then lets those that are
// under way come to their end, for as long as ctx lasts. It returns when none
// is left.
func (w *World) Run(ctx, load context.Context) {
	for range w.o.Conversations {
		w.running.Go(func() {
			for load.Err() == nil && ctx.Err() == nil {
				if n := w.next.Add(1); chats(n) {
					w.chat(ctx, n)
				} else {
					w.converse(ctx, n)
				}
			}
		})
	}
	w.running.Wait()
}

// Close stops what listens.
func (w *World) Close() {
	w.mail.close()
	for _, s := range w.Streams() {
		s.stop()
	}
	for _, h := range w.http {
		h.CloseIdleConnections()
	}
}

// Conversations is how many were begun.
func (w *World) Conversations() uint64 { return w.next.Load() }

// client gives a client of one api node, for a person or for the backend.
func (w *World) client(t tenant, node int, by string) *client.Client {
	options := []client.Option{client.WithTries(1), client.WithHTTPClient(w.http[node])}
	if by != "" {
		options = append(options, client.WithActor(by))
	}
	return client.New(w.site.API(node), t.key, options...)
}

// fork gives a source of chance of its own, for what runs beside.
func fork(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

// pause waits for up to d, and tells whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
