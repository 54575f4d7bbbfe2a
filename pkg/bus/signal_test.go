package bus

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/countersign/countersign/pkg/model"
)

// follower collects signals and counts resyncs.
type follower struct {
	mu      sync.Mutex
	signals []Signal
	resyncs int
}

func (f *follower) handle(s Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals = append(f.signals, s)
}

func (f *follower) resync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resyncs++
}

func (f *follower) seen() (signals []Signal, resyncs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Signal(nil), f.signals...), f.resyncs
}

func follow(t *testing.T, b *testBus, queue string) *follower {
	t.Helper()
	f := &follower{}
	cancel, err := b.SubscribeSignals(SignalSubscription{Queue: queue, Handle: f.handle, Resync: f.resync})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	return f
}

func (f *follower) got(n int) func() bool {
	return func() bool { signals, _ := f.seen(); return len(signals) >= n }
}

func TestSignalsReachEveryFollowerAndOneOfAQueue(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	publisher, other := ready(t, s), ready(t, s)
	all1, all2 := follow(t, publisher, ""), follow(t, other, "")
	queue1, queue2 := follow(t, publisher, "continuer"), follow(t, other, "continuer")

	var want []Signal
	for i := range 50 {
		want = append(want, Signal{Tenant: "te.nant *", Topic: model.TopicID(fmt.Sprintf("to/pic > %d", i)), Version: 7, Traceparent: someTraceparent})
	}
	if err := publisher.PublishSignals(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both followers have all", func() bool { return all1.got(50)() && all2.got(50)() })
	for _, f := range []*follower{all1, all2} {
		if got, _ := f.seen(); !cmp.Equal(want, got) {
			t.Errorf("signals (-want +got):\n%s", cmp.Diff(want, got))
		}
	}
	eventually(t, "the queue has each once", func() bool {
		a, _ := queue1.seen()
		b, _ := queue2.seen()
		return len(a)+len(b) == 50
	})
}

func TestASignalCarriesTheTraceOfItsContext(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	f := follow(t, b, "")
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": someTraceparent})
	if err := b.PublishSignals(ctx, []Signal{{Tenant: "a", Topic: "x", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the signal came", f.got(1))
	if got, _ := f.seen(); got[0].Traceparent != someTraceparent {
		t.Errorf("traceparent %q, want %q", got[0].Traceparent, someTraceparent)
	}
}

func TestForgedSignalsAreDroppedAndCounted(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	f := follow(t, b, "")
	forged := map[string]string{
		"countersign.invalidated.a.x": `{"tenant":"b","topic":"x","version":1}`,
		"countersign.invalidated.a.y": `not json`,
		"countersign.invalidated.a.z": `{"tenant":"a","topic":"z","version":-1}`,
		"countersign.invalidated.a.w": ``,
	}
	for subject, body := range forged {
		if err := b.nc.Publish(subject, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.PublishSignals(t.Context(), []Signal{{Tenant: "a", Topic: "x", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the real one came", f.got(1))
	if got, _ := f.seen(); len(got) != 1 || b.counts.get("garbage", "signal") != int64(len(forged)) {
		t.Errorf("%d signals and %d counted as garbage, want 1 and %d", len(got), b.counts.get("garbage", "signal"), len(forged))
	}
}

func TestDroppedSignalsCauseAResyncAfterTheLastDrop(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t), func(o *options) { o.timing.pendingLimit = 10 })
	release := make(chan struct{})
	f := &follower{}
	cancel, err := b.SubscribeSignals(SignalSubscription{
		Handle: func(s Signal) { <-release; f.handle(s) },
		Resync: f.resync,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	for i := range 1000 {
		if err := b.publishSignal(Signal{Tenant: "a", Topic: model.TopicID(fmt.Sprint(i)), Version: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "resync", func() bool { _, resyncs := f.seen(); return resyncs > 0 })
	close(release)
	eventually(t, "signals are handled again", func() bool {
		if err := b.PublishSignals(t.Context(), []Signal{{Tenant: "a", Topic: "last", Version: 1}}); err != nil {
			t.Fatal(err)
		}
		signals, _ := f.seen()
		return len(signals) > 0 && signals[len(signals)-1].Topic == "last"
	})
}

func TestAFollowerResyncsWhenTheServerComesBack(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := ready(t, s)
	f := follow(t, b, "")
	s.stop()
	eventually(t, "disconnected", func() bool { return !b.Connected() })
	if err := b.PublishSignals(t.Context(), []Signal{{Tenant: "a", Topic: "x", Version: 1}}); err == nil {
		t.Error("a signal that nobody took was not reported")
	}
	s.start()
	eventually(t, "resync", func() bool { _, resyncs := f.seen(); return resyncs == 1 })
	if err := b.PublishSignals(t.Context(), []Signal{{Tenant: "a", Topic: "x", Version: 2}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "signals flow again", f.got(1))
}

func TestAFollowerThatStartsWithoutAServerBeginsWithAResync(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stop()
	b := connect(t, s.url())
	f := follow(t, b, "")
	if b.Connected() {
		t.Fatal("connected to a server that is not there")
	}
	s.start()
	eventually(t, "resync", func() bool { _, resyncs := f.seen(); return resyncs >= 1 })
	if err := b.PublishSignals(t.Context(), []Signal{{Tenant: "a", Topic: "x", Version: 2}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "signals flow", f.got(1))
}

func TestASignalNeverWaitsForAServerThatStoppedReading(t *testing.T) {
	t.Parallel()
	r := startRelay(t, startServer(t))
	b := connect(t, r.url())
	eventually(t, "connected", b.Connected)
	r.freeze()
	var slowest time.Duration
	for round := range 15 { // some 15 MB, more than the sockets take
		signals := make([]Signal, 2000)
		for i := range signals {
			signals[i] = Signal{Tenant: "a", Topic: model.TopicID(fmt.Sprintf("topic-%0190d", round*len(signals)+i)), Version: 1}
		}
		began := time.Now()
		_ = b.PublishSignals(t.Context(), signals) // once too many wait it says so
		slowest = max(slowest, time.Since(began))
	}
	if slowest > time.Second {
		t.Errorf("publishing waited %v for a server that does not read", slowest)
	}
}
