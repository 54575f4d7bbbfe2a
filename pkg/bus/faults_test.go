package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestConnectNeedsNoServerButASensibleURL(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.stop()
	b := connect(t, s.url())
	background(t, b.Run)
	w := startWorker(t, b, 4, ackAll)
	published, err := b.PublishRuns(t.Context(), newHints(2))
	if !errors.Is(err, ErrDisconnected) || len(published) != 0 {
		t.Errorf("published %d without a server: %v", len(published), err)
	}
	if err := b.EnsureStreams(t.Context()); !errors.Is(err, ErrDisconnected) {
		t.Errorf("made streams without a server: %v", err)
	}
	s.start()
	eventually(t, "connected", b.Connected)
	publish(t, b, newHints(2))
	eventually(t, "hints arrive", func() bool { return w.calls() == 2 })

	for _, url := range []string{"nats://127.0.0.1:notaport", "http://\x7f"} {
		if b, err := Connect(url, "test", slog.New(slog.DiscardHandler)); err == nil {
			b.Close()
			t.Errorf("connected to %q", url)
		}
	}
}

func TestWorkGoesOnAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	for name, wipe := range map[string]bool{"with its store": false, "with an empty store": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			b := ready(t, s)
			var reconnects atomic.Int32
			b.OnReconnect(func() { reconnects.Add(1) })
			w := startWorker(t, b, 8, ackAll)
			publish(t, b, newHints(10))
			eventually(t, "first hints arrive", func() bool { return w.calls() == 10 })
			for round := 2; round <= 4; round++ {
				s.stop()
				if wipe {
					s.wipe()
				}
				s.start()
				eventually(t, "connected", b.Connected)
				publish(t, b, newHints(10)) // nobody runs Run here: publishing and consuming mend the streams
				eventually(t, "hints arrive", func() bool { return w.calls() == round*10 })
			}
			eventually(t, "reconnects are told", func() bool { return reconnects.Load() >= 3 })
			eventually(t, "all slots are free", func() bool { return w.slots.Free() == 8 })
		})
	}
}

func TestWorkGoesOnAfterStreamOrConsumerWereDeleted(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	w := startWorker(t, b, 8, ackAll)
	want := 0
	for range 3 {
		for what, remove := range map[string]func(context.Context) error{
			"consumer": func(ctx context.Context) error { return b.js.DeleteConsumer(ctx, RunsStream, "workers") },
			"stream":   func(ctx context.Context) error { return b.js.DeleteStream(ctx, RunsStream) },
			"purge": func(ctx context.Context) error {
				stream, err := b.js.Stream(ctx, RunsStream)
				if err != nil {
					return err
				}
				return stream.Purge(ctx)
			},
		} {
			eventually(t, "consumer exists", func() bool { return b.consumerInfoOrNil() != nil })
			if err := remove(t.Context()); err != nil {
				t.Fatalf("delete the %s: %v", what, err)
			}
			publish(t, b, newHints(5))
			want += 5
			eventually(t, "hints arrive after the "+what+" was deleted", func() bool { return w.calls() == want })
		}
	}
}

func TestRunMakesMissingStreamsAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	b := connect(t, s.url())
	background(t, b.Run)
	exists := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, name := range []string{RunsStream, ContinuationsStream, HeartbeatsStream} {
			if _, err := b.js.Stream(ctx, name); err != nil {
				return false
			}
		}
		return true
	}
	eventually(t, "streams exist", exists)
	s.stop()
	s.wipe()
	s.start()
	eventually(t, "streams exist again", exists)
}

func TestStreamsAreMendedAndAreNotTouchedWhenTheyAreRight(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	stream, err := b.js.Stream(t.Context(), RunsStream)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	if config.MaxAge != config.Duplicates || config.Retention != jetstream.LimitsPolicy {
		t.Errorf("ids may be forgotten: MaxAge %v, window %v, retention %v", config.MaxAge, config.Duplicates, config.Retention)
	}
	config.MaxAge, config.Duplicates = time.Minute, time.Second
	config.Metadata = map[string]string{"owner": "ops"}
	if _, err := b.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stream, err = b.js.Stream(t.Context(), RunsStream); err != nil {
		t.Fatal(err)
	}
	mended := stream.CachedInfo().Config
	if mended.MaxAge != time.Hour || mended.Duplicates != time.Hour || mended.Metadata["owner"] != "ops" {
		t.Errorf("mended to %+v", mended)
	}
	for _, want := range b.streamConfigs() {
		stream, err := b.js.Stream(t.Context(), want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.ensureStream(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		have := stream.CachedInfo().Config
		if again := b.mend(have, want); again.MaxMsgs != have.MaxMsgs || !sameConfig(have, again) {
			t.Errorf("%s would be updated each time:\nhave %+v\nwant %+v", want.Name, have, again)
		}
	}
}

func TestAFrozenServerIsNoticedAndWorkGoesOnWhenItThaws(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	direct := ready(t, s)
	r := startRelay(t, s)
	behind := connect(t, r.url())
	eventually(t, "connected", behind.Connected)
	w := startWorker(t, behind, 4, ackAll)
	publish(t, direct, newHints(2))
	eventually(t, "first hints arrive", func() bool { return w.calls() == 2 })
	r.freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if published, err := behind.PublishRuns(ctx, newHints(1)); err == nil || len(published) != 0 {
		t.Errorf("published %d through a frozen connection: %v", len(published), err)
	}
	eventually(t, "silence is noticed", func() bool { return behind.counts.get("rebuilds", "run") > 0 })
	r.unfreeze()
	publish(t, direct, newHints(3))
	eventually(t, "hints arrive", func() bool { return w.calls() >= 5 })
}

func TestPublishedIsOnlyWhatTheStreamAcknowledged(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	hints := newHints(3)
	hints[1].Traceparent = string(make([]byte, 8<<10)) // larger than a hint may be
	published, err := b.PublishRuns(t.Context(), hints)
	if err == nil || len(published) != 2 || published[0] != hints[0] || published[1] != hints[2] {
		t.Errorf("published %d hints, error %v; want the first and the third, and an error", len(published), err)
	}
	if b.counts.get("published", "run") != 2 || b.counts.get("failures", "publish run") != 1 {
		t.Errorf("counted %v", b.counts.values)
	}
}
