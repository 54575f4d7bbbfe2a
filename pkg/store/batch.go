package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/bugs"
	"github.com/countersign/countersign/pkg/model"
)

const (
	// maxBatch bounds the items of one commit, so that its arrays and its
	// locks stay small.
	maxBatch = 128
	// commitTimeout bounds one transaction. It is the transaction's own
	// clock: a request that is cancelled never cancels a commit.
	commitTimeout = 6 * time.Second
	// retryFor is how long an item is tried by itself after its batch failed;
	// beyond it the caller is told to come again.
	retryFor = 8 * time.Second
	// queueFor is how long an item waits for the commits before it. While the
	// database hangs they take all of their time, and whoever would wait
	// longer is told to come again: nothing was done for him yet.
	queueFor = 5 * time.Second
	// itemRetries bounds the tries of one item where they fail fast.
	itemRetries = 5
)

// batcher collects the items that arrive while a commit is in flight and
// hands them over together when it is done. There is no timer: a lone item
// waits for nobody.
type batcher[In, Out any] struct {
	name    string
	do      func(ctx context.Context, tenant model.TenantID, items []In) ([]outcome[Out], error)
	metrics metrics

	mu      sync.Mutex
	queue   []*waiting[In, Out]
	running bool
	closed  bool
	idle    sync.WaitGroup
}

// outcome is what became of one item: an error of the item is an outcome,
// not a failure of its transaction.
type outcome[Out any] struct {
	value Out
	err   error
}

type waiting[In, Out any] struct {
	tenant model.TenantID
	item   In
	done   chan outcome[Out]
}

func newBatcher[In, Out any](
	name string, m metrics, do func(context.Context, model.TenantID, []In) ([]outcome[Out], error),
) *batcher[In, Out] {
	return &batcher[In, Out]{name: name, do: do, metrics: m}
}

// submit queues an item and waits for its outcome. When ctx ends first, the
// item still goes its way, and the caller does not know its outcome. An item
// whose turn does not come is [model.ErrUnavailable] and was not done.
func (b *batcher[In, Out]) submit(ctx context.Context, tenant model.TenantID, item In) (Out, error) {
	w := &waiting[In, Out]{tenant, item, make(chan outcome[Out], 1)}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		var none Out
		return none, model.ErrUnavailable
	}
	b.queue = append(b.queue, w)
	if !b.running {
		b.running = true
		b.idle.Add(1)
		go b.drain()
	}
	b.mu.Unlock()
	impatient := time.NewTimer(queueFor)
	defer impatient.Stop()
	for {
		select {
		case o := <-w.done:
			return o.value, o.err
		case <-impatient.C:
			if b.withdraw(w) {
				var none Out
				return none, fmt.Errorf("%w: the %s commits before this one take too long", model.ErrUnavailable, b.name)
			}
		case <-ctx.Done():
			var none Out
			return none, context.Cause(ctx)
		}
	}
}

// withdraw takes an item back that is still queued.
func (b *batcher[In, Out]) withdraw(w *waiting[In, Out]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, w)
	if i < 0 {
		return false
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	return true
}

func (b *batcher[In, Out]) drain() {
	defer b.idle.Done()
	for {
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		b.run(batch)
	}
}

// take removes the next batch: the items of the first one's tenant.
func (b *batcher[In, Out]) take() []*waiting[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.running = false
		return nil
	}
	var batch, rest []*waiting[In, Out]
	tenant := b.queue[0].tenant
	for _, w := range b.queue {
		if w.tenant == tenant && len(batch) < maxBatch {
			batch = append(batch, w)
		} else {
			rest = append(rest, w)
		}
	}
	b.queue = rest
	return batch
}

// run commits a batch. Should the transaction itself fail, each item is asked
// again by itself, so that nobody suffers for a neighbour: an item that was
// committed after all recognizes its own token.
func (b *batcher[In, Out]) run(batch []*waiting[In, Out]) {
	begin := time.Now()
	out, err := b.attempt(batch)
	for i, w := range batch {
		if err == nil {
			w.done <- out[i]
		} else {
			w.done <- b.alone(w, err, begin, len(batch) > 1)
		}
	}
}

// alone tries an item that failed with err again, as long as that can help
// and somebody can be expected to wait. Where the error may be a neighbour's,
// it is tried whatever the error.
func (b *batcher[In, Out]) alone(w *waiting[In, Out], err error, begin time.Time, neighbours bool) outcome[Out] {
	for n := 0; n < itemRetries && !bugs.LostCommit && (neighbours || transient(err)) && time.Since(begin) < retryFor; n++ {
		if !neighbours {
			pause(n)
		}
		var out []outcome[Out]
		if out, err = b.attempt([]*waiting[In, Out]{w}); err == nil {
			return out[0]
		}
		neighbours = false
	}
	return outcome[Out]{err: unavailable(err)}
}

func (b *batcher[In, Out]) attempt(batch []*waiting[In, Out]) ([]outcome[Out], error) {
	ctx := context.Background()
	items := make([]In, len(batch))
	for i, w := range batch {
		items[i] = w.item
	}
	start := time.Now()
	out, err := b.do(ctx, batch[0].tenant, items)
	b.metrics.batch(ctx, b.name, len(batch), time.Since(start), err)
	if err == nil && len(out) != len(items) {
		err = errors.New("a batch must give an outcome per item")
	}
	return out, err
}

// close refuses new items and waits for those that are under way.
func (b *batcher[In, Out]) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.idle.Wait()
}
