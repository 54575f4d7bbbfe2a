package projection

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/countersign/countersign/test/nemesis/rows"
)

// every is how often Redis is looked at.
const every = 25 * time.Millisecond

// Watcher looks at Redis all the time.
type Watcher struct {
	address func() string
	upset   func() bool // a fault that makes Redis forget is under way, or was a moment ago

	mu   sync.Mutex
	last map[string]entry
	seen int // entries
	back []Back
}

// Back is an entry that went back.
type Back struct {
	Tenant, Topic string
	From, To      int64
}

func (b Back) String() string {
	return fmt.Sprintf("the entry of topic %s of tenant %s went back from version %d to version %d, though nothing made Redis forget",
		b.Topic, b.Tenant, b.From, b.To)
}

// New makes a watcher; upset tells when Redis may forget.
func New(address func() string, upset func() bool) *Watcher {
	return &Watcher{address: address, upset: upset, last: map[string]entry{}}
}

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var r *reader
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		var err error
		if r == nil {
			r, err = dial(w.address())
		}
		if err == nil {
			err = w.look(r)
		}
		if err != nil {
			w.forget() // it may be another Redis next time
			if r != nil {
				_ = r.conn.Close()
				r = nil
			}
		}
	}
	if r != nil {
		_ = r.conn.Close()
	}
}

func (w *Watcher) look(r *reader) error {
	before := w.upset()
	now, err := r.read()
	if err != nil {
		return err
	}
	if before || w.upset() {
		w.forget()
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen += len(now)
	for key, e := range now {
		// An entry that ran out between two looks has taken its guard with it.
		if was, known := w.last[key]; known && e.version < was.version && was.left > 2*every {
			tenant, topic := split(e.id)
			w.back = append(w.back, Back{tenant, topic, was.version, e.version})
		}
	}
	w.last = now
	return nil
}

func (w *Watcher) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = map[string]entry{}
}

// Seen is how many entries were looked at.
func (w *Watcher) Seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// Backs are the entries that went back so far.
func (w *Watcher) Backs() []Back {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Back(nil), w.back...)
}

// Differs says how what Redis holds differs from the rows; "" when no entry
// does.
func Differs(address string, topics []rows.Topic) (string, error) {
	r, err := dial(address)
	if err != nil {
		return "", err
	}
	defer r.conn.Close()
	now, err := r.read()
	if err != nil {
		return "", err
	}
	newest := map[string]entry{} // of every epoch of the database
	for _, e := range now {
		if known, there := newest[e.id]; !there || e.version > known.version {
			newest[e.id] = e
		}
	}
	for _, t := range topics {
		e, there := newest[url.QueryEscape(t.Tenant)+":"+url.QueryEscape(t.ID)]
		if there && (e.body && e.version != t.Version || e.version > t.Version) {
			return fmt.Sprintf("topic %s of tenant %s: Redis has version %d for %s more, the row is %d", t.ID, t.Tenant, e.version, e.left, t.Version), nil
		}
	}
	return "", nil
}

func split(id string) (tenant, topic string) {
	for i := range id {
		if id[i] == ':' {
			tenant, _ = url.QueryUnescape(id[:i])
			topic, _ = url.QueryUnescape(id[i+1:])
		}
	}
	return tenant, topic
}
