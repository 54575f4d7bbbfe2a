package httpapi

import (
	"errors"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

const (
	// keyAge is how long what the database said about a key holds.
	keyAge = 2 * time.Second
	// keptKeys bounds the cache; unknown keys count too.
	keptKeys = 10_000
)

// keyCache keeps what was found out about keys for [keyAge], and that there
// is no such key.
type keyCache[T any] struct {
	mu    sync.Mutex
	keys  map[string]keyEntry[T]
	since int // how often everything was forgotten
}

type keyEntry[T any] struct {
	value T
	known bool
	until time.Time
}

func newKeyCache[T any]() *keyCache[T] { return &keyCache[T]{keys: map[string]keyEntry[T]{}} }

// find asks read unless it did so lately. Errors: that there is no such key,
// and what read says but for [model.ErrNotFound].
func (c *keyCache[T]) find(name string, read func() (T, error)) (T, error) {
	e, since, found := c.get(name)
	if !found {
		before := time.Now()
		value, err := read()
		if err != nil && !errors.Is(err, model.ErrNotFound) {
			return value, err
		}
		e = keyEntry[T]{value, err == nil, before.Add(keyAge)}
		c.put(name, e, since)
	}
	if !e.known {
		return e.value, errUnauthenticated
	}
	return e.value, nil
}

func (c *keyCache[T]) get(name string) (e keyEntry[T], since int, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, found = c.keys[name]
	return e, c.since, found && time.Now().Before(e.until)
}

// put keeps what was read, unless everything was forgotten since: it may be
// from before the change.
func (c *keyCache[T]) put(name string, e keyEntry[T], since int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since != c.since {
		return
	}
	if len(c.keys) >= keptKeys {
		clear(c.keys)
	}
	c.keys[name] = e
}

// forget makes the next request of every key ask the database again.
func (c *keyCache[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.keys)
	c.since++
}
