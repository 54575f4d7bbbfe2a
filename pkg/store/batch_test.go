package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/model"
)

// What queues up while a batch is under way travels in the next one, by
// tenant; nobody waits for a timer.
func TestABatchTakesWhatQueuedUp(t *testing.T) {
	t.Parallel()
	entered, release := make(chan []int), make(chan struct{})
	b := newBatcher("test", metrics{}, func(_ context.Context, _ model.TenantID, items []int) ([]outcome[int], error) {
		entered <- items
		<-release
		return echo(items), nil
	})
	var callers sync.WaitGroup
	send := func(tenant model.TenantID, n int) {
		callers.Go(func() {
			if got, err := b.submit(t.Context(), tenant, n); err != nil || got != n {
				t.Errorf("%d: %d, %v", n, got, err)
			}
		})
	}
	send("a", 1)
	if got := <-entered; !slices.Equal(got, []int{1}) {
		t.Fatalf("the first waits for nobody: %v", got)
	}
	send("a", 2)
	send("b", 3)
	send("a", 4)
	queued(t, b, 3)
	release <- struct{}{}
	sizes := map[int]bool{}
	for range 2 {
		sizes[len(<-entered)] = true
		release <- struct{}{}
	}
	callers.Wait()
	b.close()
	if !sizes[2] || !sizes[1] {
		t.Errorf("sizes of the batches of two tenants: %v", sizes)
	}
}

// An item that the database refuses does not keep its neighbours from being
// committed, and is itself told why.
func TestNobodySuffersForANeighbour(t *testing.T) {
	t.Parallel()
	refused := &pgconn.PgError{Code: "22021"}
	entered, release := make(chan struct{}, 64), make(chan struct{})
	b := newBatcher("test", metrics{}, func(_ context.Context, _ model.TenantID, items []int) ([]outcome[int], error) {
		entered <- struct{}{}
		if slices.Contains(items, 0) {
			<-release
		}
		if slices.Contains(items, 13) {
			return nil, refused
		}
		return echo(items), nil
	})
	var callers sync.WaitGroup
	for _, n := range []int{0, 1, 13, 2} {
		callers.Go(func() {
			_, err := b.submit(t.Context(), "a", n)
			if want := n == 13; errors.Is(err, refused) != want || (err != nil) != want {
				t.Errorf("%d: %v", n, err)
			}
		})
		if n == 0 {
			<-entered
		}
	}
	queued(t, b, 3)
	close(release)
	callers.Wait()
	b.close()
	if _, err := b.submit(t.Context(), "a", 1); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("after close: %v", err)
	}
}

// A caller that goes away does not take its item along.
func TestACallerThatLeavesDoesNotCancelItsItem(t *testing.T) {
	t.Parallel()
	entered, release, did := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b := newBatcher("test", metrics{}, func(ctx context.Context, _ model.TenantID, items []int) ([]outcome[int], error) {
		close(entered)
		<-release
		if ctx.Err() != nil {
			t.Error("the batch was cancelled with its caller")
		}
		close(did)
		return echo(items), nil
	})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := b.submit(ctx, "a", 1)
		left <- err
	}()
	<-entered
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller: %v", err)
	}
	close(release)
	<-did
	b.close()
}

func echo(items []int) []outcome[int] {
	out := make([]outcome[int], len(items))
	for i, n := range items {
		out[i].value = n
	}
	return out
}

// queued waits until n items wait for the next batch.
func queued(t *testing.T, b *batcher[int, int], n int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		waiting := len(b.queue)
		b.mu.Unlock()
		if waiting == n {
			return
		}
	}
	t.Fatalf("%d items never queued up", n)
}

// Whoever waits behind commits that hang is told to come again before his own
// is begun, and nothing is done for him (fault 50).
func TestNobodyWaitsForEverBehindCommitsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var done []int
		b := newBatcher("test", metrics{}, func(_ context.Context, _ model.TenantID, items []int) ([]outcome[int], error) {
			done = append(done, items...)
			<-release
			return echo(items), nil
		})
		first := make(chan error, 1)
		go func() { _, err := b.submit(t.Context(), "a", 1); first <- err }()
		synctest.Wait()
		begin := time.Now()
		if _, err := b.submit(t.Context(), "b", 2); !errors.Is(err, model.ErrUnavailable) || time.Since(begin) != queueFor {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		b.close()
		if !slices.Equal(done, []int{1}) {
			t.Errorf("done: %v", done)
		}
	})
}
