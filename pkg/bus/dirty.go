package bus

import (
	"sync"

	"github.com/countersign/countersign/pkg/model"
)

// Dirty is a set of topics to look at. A topic that is marked again before
// somebody took it stays one entry with the highest version, so a flood of
// signals about one topic is one piece of work. All methods may be called
// from any goroutine; Mark never blocks, which is what a signal's handler needs.
type Dirty struct {
	wakeup chan struct{}
	mu     sync.Mutex
	at     map[topicKey]int
	marked []Signal
}

type topicKey struct {
	tenant model.TenantID
	topic  model.TopicID
}

// NewDirty makes an empty set.
func NewDirty() *Dirty {
	return &Dirty{wakeup: make(chan struct{}, 1), at: map[topicKey]int{}}
}

// Mark adds a signal's topic.
func (d *Dirty) Mark(signal Signal) {
	d.mu.Lock()
	key := topicKey{signal.Tenant, signal.Topic}
	if i, ok := d.at[key]; !ok {
		d.at[key] = len(d.marked)
		d.marked = append(d.marked, signal)
	} else if signal.Version > d.marked[i].Version {
		d.marked[i] = signal
	}
	d.mu.Unlock()
	wake(d.wakeup)
}

// Wakeup receives after topics were marked; it may also receive when they
// have been taken already.
func (d *Dirty) Wakeup() <-chan struct{} { return d.wakeup }

// Take empties the set and gives what was in it, first marked first.
func (d *Dirty) Take() []Signal {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.marked
	d.marked = nil
	clear(d.at)
	return taken
}

// Len is how many topics are marked.
func (d *Dirty) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.marked)
}
