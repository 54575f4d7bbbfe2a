package toolschema

import (
	"container/list"
	"sync"
)

// Cache keeps compiled schemas by the hash of the definition that they belong
// to: the least recently used one goes first. Safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	size  int
	byKey map[string]*list.Element
	order *list.List // of *entry, most recently used first
}

type entry struct {
	key     string
	compile func() (*Schema, error)
}

// NewCache makes a cache of at most size schemas.
func NewCache(size int) *Cache {
	return &Cache{size: max(size, 1), byKey: map[string]*list.Element{}, order: list.New()}
}

// Compile gives the schema of a definition, compiling it at most once while
// it is kept, also when many ask at once. Errors are kept like schemas: the
// same bytes never compile better. hash must be one of the schema's content.
func (c *Cache) Compile(hash string, schema []byte) (*Schema, error) {
	return c.entry(hash, schema).compile()
}

func (c *Cache) entry(hash string, schema []byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.byKey[hash]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*entry)
	}
	e := &entry{key: hash, compile: sync.OnceValues(func() (*Schema, error) { return Compile(schema) })}
	c.byKey[hash] = c.order.PushFront(e)
	if c.order.Len() > c.size {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(*entry).key)
	}
	return e
}

// Len is the number of schemas kept.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}
