package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// authenticate finds out who asks, whether they ask too often, and for whom
// they speak.
func (r *request) authenticate() error {
	by, err := r.api.Authenticate(r.Request)
	if err != nil {
		return err
	}
	r.by = by
	r.via = r.Header.Get("Countersign-Channel")
	switch r.via {
	case "":
		r.via = "api"
	case "api", "cli", "page":
	default:
		return approval.NewInvalid("", "the header Countersign-Channel must be api, cli or page")
	}
	return nil
}

// Authenticate finds whom a request's key names; a key that may act for
// people names one in Countersign-Actor. Errors: that there is no such key,
// that it asks too often, [model.ErrNotPermitted], [model.ErrUnavailable].
func (a *API) Authenticate(r *http.Request) (model.Principal, error) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || key == "" || len(key) > maxKey {
		return model.Principal{}, errUnauthenticated
	}
	p, err := a.Principal(r.Context(), key)
	if err != nil {
		return p, err
	}
	return actFor(p, r.Header.Get("Countersign-Actor"))
}

// maxKey is more than any key of ours has, in bytes.
const maxKey = 200

// Principal finds whom a key names. It asks the database at most every
// [keyAge], so a revoked key is refused everywhere within that time, and at
// once on the node where it was revoked.
func (a *API) Principal(ctx context.Context, key string) (model.Principal, error) {
	hash := string(store.HashKey(key))
	p, known, found := a.keys.get(hash)
	if !found {
		var err error
		if p, err = a.Store.Authenticate(ctx, key); err != nil && !errors.Is(err, model.ErrNotFound) {
			return p, err
		}
		known = err == nil
		a.keys.put(hash, p, known)
	}
	if !known {
		return p, errUnauthenticated
	}
	if !a.rates.allow(hash) {
		return p, errRateLimited
	}
	return p, nil
}

// personPrefix begins the name of every person; others ("key:", "policy:")
// are names that nobody may take.
const personPrefix = "user:"

func actFor(p model.Principal, person string) (model.Principal, error) {
	if person == "" {
		return p, nil
	}
	if !p.ActsFor {
		return p, say(model.ErrNotPermitted, "This key may not act for people; leave Countersign-Actor out.")
	}
	if !strings.HasPrefix(person, personPrefix) || len(person) == len(personPrefix) || model.CheckID(person) != nil {
		return p, approval.NewInvalid("", "the header Countersign-Actor must name a person, such as user:bob")
	}
	p.Subject, p.OnBehalf = person, true
	return p, nil
}

const (
	// keyAge is how long what the database said about a key holds.
	keyAge = 2 * time.Second
	// keptKeys bounds the cache; unknown keys count too.
	keptKeys = 10_000
)

// keyCache keeps what was found out about keys, by their hash.
type keyCache struct {
	mu   sync.Mutex
	keys map[string]keyEntry
}

type keyEntry struct {
	principal model.Principal
	known     bool
	until     time.Time
}

func newKeyCache() *keyCache { return &keyCache{keys: map[string]keyEntry{}} }

func (c *keyCache) get(hash string) (p model.Principal, known, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.keys[hash]
	if !ok || time.Now().After(e.until) {
		return p, false, false
	}
	return e.principal, e.known, true
}

func (c *keyCache) put(hash string, p model.Principal, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= keptKeys {
		clear(c.keys)
	}
	c.keys[hash] = keyEntry{p, known, time.Now().Add(keyAge)}
}

// forget makes the next request of every key ask the database again.
func (c *keyCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.keys)
}
