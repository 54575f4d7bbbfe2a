package watch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/store"
)

// waiting runs Wait and gives its result on a channel.
func waiting(t *testing.T, h *Hub, topic string, after int64) <-chan error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- h.Wait(ctx, key(topic), after) }()
	return done
}

// watched waits until somebody watches the topic.
func watched(t *testing.T, h *Hub, topic string) {
	t.Helper()
	eventually(t, "the topic is watched and read", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		found := h.topics[key(topic)]
		return found != nil && found.heard > 0
	})
}

func TestASignalWakesAWaiter(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	say(t, n.store, "t1", "m1", "hi")
	done := waiting(t, n.hub, "t1", 1)
	watched(t, n.hub, "t1")
	say(t, n.store, "t1", "m2", "there")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsThereAlreadyIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	say(t, n.mute, "t1", "m1", "hi")
	if err := <-waiting(t, n.hub, "t1", 0); err != nil {
		t.Fatal(err)
	}
}

func TestATopicThatDoesNotExistIsWaitedFor(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: 20 * time.Millisecond})
	done := waiting(t, n.hub, "t1", 0)
	say(t, n.mute, "t1", "m1", "hi")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestLostSignalsAreFoundByTheSweep(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: 20 * time.Millisecond})
	say(t, n.mute, "t1", "m1", "hi")
	done := waiting(t, n.hub, "t1", 1)
	watched(t, n.hub, "t1")
	say(t, n.mute, "t2", "m1", "elsewhere")
	select {
	case err := <-done:
		t.Fatalf("woken by nothing: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	say(t, n.mute, "t1", "m2", "there")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAnOutageOfNATSIsCaughtUpWithWhenItReturns(t *testing.T) {
	t.Parallel()
	nats := testservers.NATS(t)
	n := newNode(t, testservers.Database(t, store.Migrate), nats.URL(), Options{Sweep: never})
	say(t, n.store, "t1", "m1", "hi")
	done := waiting(t, n.hub, "t1", 1)
	watched(t, n.hub, "t1")
	if err := nats.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the outage is noticed", func() bool { return !n.bus.Connected() })
	say(t, n.store, "t1", "m2", "nobody hears this")
	if err := nats.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A forged version wakes nobody for long, and hides no true one: neither one
// that is signalled nor one that the sweep finds.
func TestAForgedSignalHidesNothing(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: 20 * time.Millisecond})
	for i, s := range []*store.Store{n.store, n.mute} {
		topic := fmt.Sprint("t", i)
		say(t, s, topic, "m1", "hi")
		done := waiting(t, n.hub, topic, 1)
		watched(t, n.hub, topic)
		n.hub.hear(bus.Signal{Tenant: tenant, Topic: key(topic).Topic, Version: 999})
		select {
		case err := <-done:
			t.Fatalf("woken by a forgery: %v", err)
		case <-time.After(30 * time.Millisecond):
		}
		n.hub.hear(bus.Signal{Tenant: tenant, Topic: key(topic).Topic, Version: 999})
		say(t, s, topic, "m2", "there")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Waiting begins before reading, so a decision that commits at the same
// moment is never missed, sweep or no sweep.
func TestADecisionRacingWithAWaitIsNeverMissed(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	for i := range 40 {
		topic := fmt.Sprint("t", i)
		call := ask(t, n.store, topic, "msg_1")
		var group sync.WaitGroup
		group.Go(func() {
			if err := deny(t.Context(), n.store, call); err != nil {
				t.Error(err)
			}
		})
		for range 4 {
			group.Go(func() {
				if err := <-waiting(t, n.hub, topic, 1); err != nil {
					t.Errorf("%s: %v", topic, err)
				}
			})
		}
		group.Wait()
	}
}

// One who reads a version that another was not told of wakes the other.
func TestWhatOneSawTheOtherIsToldOf(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	a, b := n.hub.Watch(key("t1")), n.hub.Watch(key("t1"))
	defer a.Close()
	defer b.Close()
	a.Saw(5)
	b.Saw(5)
	b.Saw(6)
	select {
	case <-a.Changed():
	default:
		t.Fatal("a was not woken")
	}
	if !a.Again() {
		t.Error("a was told that it knows")
	}
	select {
	case <-b.Changed():
		if b.Again() {
			t.Error("b was told what it said itself")
		}
	default:
	}
}

func TestAWatchThatIsClosedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	n := alone(t, Options{Sweep: never})
	ctx, cancel := context.WithCancel(t.Context())
	w := n.hub.Watch(key("t1"))
	cancel()
	if err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next = %v", err)
	}
	w.Close()
	w.Close()
	n.hub.mu.Lock()
	defer n.hub.mu.Unlock()
	if len(n.hub.topics) != 0 {
		t.Errorf("%d topics are still watched", len(n.hub.topics))
	}
}
