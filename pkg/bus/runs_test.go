package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/model"
)

func newHints(n int) []RunHint {
	hints := make([]RunHint, n)
	for i := range hints {
		hints[i] = RunHint{Tenant: "te.nant", Call: model.NewCallID(), Fence: 1, Publish: 1, Traceparent: someTraceparent}
	}
	return hints
}

func publish(t *testing.T, b *testBus, hints []RunHint) {
	t.Helper()
	published, err := b.PublishRuns(t.Context(), hints)
	if err != nil || len(published) != len(hints) {
		t.Fatalf("published %d of %d: %v", len(published), len(hints), err)
	}
}

// worker collects deliveries; with hold it keeps them unsettled.
type worker struct {
	slots *Slots
	mu    sync.Mutex
	seen  map[model.CallID]int
	held  []Delivery
}

func startWorker(t *testing.T, b *testBus, slots int, handle func(*worker, Delivery)) *worker {
	t.Helper()
	w := &worker{slots: NewSlots(slots), seen: map[model.CallID]int{}}
	background(t, func(ctx context.Context) error {
		return b.ConsumeRuns(ctx, ConsumeOptions{Durable: "workers", Slots: w.slots}, func(d Delivery) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen[d.Hint.Call]++
			handle(w, d)
		})
	})
	return w
}

func ackAll(_ *worker, d Delivery)  { d.Ack() }
func holdAll(w *worker, d Delivery) { w.held = append(w.held, d) }

func (w *worker) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func (w *worker) takeHeld() []Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.held
	w.held = nil
	return held
}

func (b *testBus) consumerInfo(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	consumer, err := b.js.Consumer(t.Context(), RunsStream, "workers")
	if err != nil {
		t.Fatal(err)
	}
	return consumer.CachedInfo()
}

func TestRunHintsArriveWholeAndAreAcknowledged(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	hints := newHints(500)
	publish(t, b, hints)
	got := map[model.CallID]RunHint{}
	w := startWorker(t, b, 64, func(_ *worker, d Delivery) {
		got[d.Hint.Call] = d.Hint
		if d.ID != d.Hint.messageID() || d.Deliveries != 1 {
			t.Errorf("delivered as %q for the %d. time", d.ID, d.Deliveries)
		}
		d.Ack()
	})
	eventually(t, "all arrived", func() bool { return w.calls() == len(hints) })
	eventually(t, "all acknowledged", func() bool { return b.consumerInfo(t).NumAckPending == 0 })
	eventually(t, "all counted", func() bool { return b.counts.get("acked", "run") == int64(len(hints)) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, hint := range hints {
		if diff := cmp.Diff(hint, got[hint.Call]); diff != "" {
			t.Fatalf("hint (-want +got):\n%s", diff)
		}
	}
	if free := w.slots.Free(); free != 64 {
		t.Errorf("%d slots free after all was settled, want 64", free)
	}
}

func TestTheSameHintIsStoredOnceAndARepublishAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := ready(t, s)
	hints := newHints(3)
	publish(t, b, hints)
	publish(t, b, hints) // a duplicate is success
	w := startWorker(t, b, 8, ackAll)
	eventually(t, "arrived", func() bool { return w.calls() == 3 })
	eventually(t, "acknowledged", func() bool { return b.counts.get("acked", "run") == 3 })

	s.stop() // ids survive a restart, also those of acknowledged messages
	s.start()
	eventually(t, "connected", b.Connected)
	publish(t, b, hints)
	for i := range hints {
		hints[i].Publish++
	}
	publish(t, b, hints)
	eventually(t, "republished hints arrive", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		total := 0
		for _, n := range w.seen {
			total += n
		}
		return total == 6
	})
	stream, err := b.js.Stream(t.Context(), RunsStream)
	if err != nil {
		t.Fatal(err)
	}
	if got := stream.CachedInfo().State.Msgs; got != 6 {
		t.Errorf("%d messages stored, want 6", got)
	}
}

func TestNoMoreIsPulledThanThereAreFreeSlots(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	w := startWorker(t, b, 5, holdAll)
	publish(t, b, newHints(40))
	for left := 40; left > 0; left -= 5 {
		eventually(t, "slots are full", func() bool { return w.slots.Free() == 0 })
		if info := b.consumerInfo(t); info.NumAckPending > 5 || info.NumPending != uint64(left-5) {
			t.Fatalf("%d unacknowledged and %d waiting, want at most 5 and %d", info.NumAckPending, info.NumPending, left-5)
		}
		settled := b.counts.get("acked", "run")
		for _, d := range w.takeHeld() {
			d.Ack()
		}
		eventually(t, "acknowledged", func() bool { return b.counts.get("acked", "run") == settled+5 })
	}
	eventually(t, "all free", func() bool { return w.slots.Free() == 5 })
	if surplus := b.counts.get("surplus", "run"); surplus != 0 {
		t.Errorf("%d messages came without a slot", surplus)
	}
}

func TestAMessageWhoseSlotWasTakenGoesBack(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	w := startWorker(t, b, 2, ackAll)
	eventually(t, "pulling", func() bool { return b.consumerInfoOrNil() != nil && b.consumerInfoOrNil().NumWaiting > 0 })
	if n := w.slots.TryAcquire(2); n != 2 {
		t.Fatalf("took %d slots, want 2", n)
	}
	publish(t, b, newHints(1))
	eventually(t, "given back", func() bool { return b.counts.get("surplus", "run") > 0 })
	if w.calls() != 0 {
		t.Error("handled without a slot")
	}
	w.slots.Release(2)
	eventually(t, "handled", func() bool { return w.calls() == 1 })
}

func (b *testBus) consumerInfoOrNil() *jetstream.ConsumerInfo {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	consumer, err := b.js.Consumer(ctx, RunsStream, "workers")
	if err != nil {
		return nil
	}
	return consumer.CachedInfo()
}

func TestTwoWorkersShareTheWork(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	publisher, busA, busB := ready(t, s), ready(t, s), ready(t, s)
	a, b := startWorker(t, busA, 4, ackAll), startWorker(t, busB, 4, ackAll)
	waiting := func() bool { info := publisher.consumerInfoOrNil(); return info != nil && info.NumWaiting >= 2 }
	eventually(t, "both pull", waiting)
	publish(t, publisher, newHints(400))
	eventually(t, "all arrived", func() bool { return a.calls()+b.calls() == 400 })
	if a.calls() == 0 || b.calls() == 0 {
		t.Errorf("one worker got all: %d and %d", a.calls(), b.calls())
	}
	for call, n := range a.seen {
		if n+b.seen[call] != 1 {
			t.Errorf("call %s was delivered %d times", call, n+b.seen[call])
		}
	}
}

func TestGarbageIsTerminatedAndNeverHandled(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	good := newHints(1)
	call := model.NewCallID()
	garbage := []string{
		"", "null", "{}", "not json", `{"tenant":"te.nant","call":"x","fence":1,"publish":1}`,
		fmt.Sprintf(`{"tenant":"other","call":%q,"fence":1,"publish":1}`, call),
		fmt.Sprintf(`{"tenant":"te.nant","call":%q,"fence":-1,"publish":1}`, call),
		`{"tenant":"te.nant","call":["x"]}`, strings.Repeat("[", 3000),
	}
	for _, body := range garbage {
		if _, err := b.js.Publish(t.Context(), RunSubject("te.nant"), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, b, good)
	w := startWorker(t, b, 4, ackAll)
	eventually(t, "the real one came", func() bool { return w.calls() == 1 })
	eventually(t, "nothing is left", func() bool { return b.consumerInfo(t).NumAckPending == 0 })
	if got := b.counts.get("garbage", "run"); got != int64(len(garbage)) {
		t.Errorf("%d counted as garbage, want %d", got, len(garbage))
	}
}

func TestAMessageComesAgainWhenItIsGivenBackOrNobodySettlesIt(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t), func(o *options) { o.timing.ackWait = 300 * time.Millisecond })
	publish(t, b, newHints(1))
	w := startWorker(t, b, 4, func(_ *worker, d Delivery) {
		switch d.Deliveries {
		case 1:
			d.Settle(fmt.Errorf("claim: %w", model.ErrVersionUnknown)) // nak, one second
			d.Ack()                                                    // settled already: does nothing
		case 2: // nobody settles it; its slot stays taken
		default:
			d.Ack()
		}
	})
	eventually(t, "acknowledged in the end", func() bool { return b.counts.get("acked", "run") == 1 })
	if got := b.counts.get("redeliveries", "run"); got != 2 {
		t.Errorf("%d redeliveries counted, want 2", got)
	}
	if free := w.slots.Free(); free != 3 {
		t.Errorf("%d slots free, want 3: the unsettled delivery holds one", free)
	}
}

func TestWorkingPutsRedeliveryOff(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t), func(o *options) { o.timing.ackWait = 500 * time.Millisecond })
	w := startWorker(t, b, 4, holdAll)
	publish(t, b, newHints(1))
	eventually(t, "delivered", func() bool { return w.calls() == 1 })
	delivery := w.takeHeld()[0]
	done := delivery.Working()
	<-time.After(1500 * time.Millisecond) // three times AckWait
	done()
	if got := b.counts.get("redeliveries", "run"); got != 0 {
		t.Errorf("delivered again %d times although in progress", got)
	}
	delivery.Ack()
	eventually(t, "acknowledged", func() bool { return b.counts.get("acked", "run") == 1 })
}

func TestWhatAStoppedWorkerWasSentGoesToAnother(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	consume := func(until func() bool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stopped := make(chan error, 1)
		go func() {
			stopped <- b.ConsumeRuns(ctx, ConsumeOptions{Durable: "workers", Slots: NewSlots(100)}, func(d Delivery) { d.Ack() })
		}()
		eventually(t, "consumed", until)
		cancel()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
	}
	acked := func(n int64) func() bool { return func() bool { return b.counts.get("acked", "run") >= n } }
	for round := range int64(5) {
		publish(t, b, newHints(100))
		consume(acked(100*round + 1))     // stops in the middle of what it was sent
		consume(acked(100 * (round + 1))) // long before AckWait, 30 s
	}
}

func TestAnUnusableConsumerNameIsRefused(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	for _, durable := range []string{"", strings.Repeat("x", 201), strings.Repeat(".", 100)} {
		if err := b.ConsumeRuns(t.Context(), ConsumeOptions{Durable: durable, Slots: NewSlots(1)}, func(Delivery) {}); err == nil {
			t.Errorf("consumer name %.20q was accepted", durable)
		}
	}
}
