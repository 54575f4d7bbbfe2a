package bus

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// BenchmarkRuns is one hint published, delivered and acknowledged, with as
// many in flight as there are slots.
func BenchmarkRuns(b *testing.B) {
	for _, slots := range []int{1, 64} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) { benchmarkRuns(b, slots) })
	}
}

func benchmarkRuns(b *testing.B, slots int) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
		StoreDir: b.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		b.Fatal(err)
	}
	go srv.Start()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(10 * time.Second) {
		b.Fatal("nats-server did not start within 10 s")
	}
	bus, err := Connect(srv.ClientURL(), "bench", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		b.Fatal(err)
	}
	defer bus.Close()
	if err := bus.EnsureStreams(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	settled := make(chan struct{}, slots)
	var handled atomic.Int64
	go func() {
		_ = bus.ConsumeRuns(ctx, ConsumeOptions{Durable: "bench", Slots: NewSlots(slots)}, func(d Delivery) {
			handled.Add(1)
			d.Ack()
			settled <- struct{}{}
		})
	}()
	b.ResetTimer()
	for left := b.N; left > 0; {
		n := min(left, slots)
		if _, err := bus.PublishRuns(ctx, newHints(n)); err != nil {
			b.Fatal(err)
		}
		for range n {
			<-settled
		}
		left -= n
	}
	b.StopTimer()
	b.ReportMetric(float64(srv.NumSubscriptions()), "subscriptions")
}
