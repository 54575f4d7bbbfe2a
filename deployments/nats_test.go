package deployments_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
)

// patience bounds each wait for a message; deliveries take milliseconds.
const patience = 30 * time.Second

// Each service does its part over NATS under the permissions that are
// deployed, and no user does another one's.
func TestEachUserOfNATSMayDoItsPartAndNoOther(t *testing.T) {
	nats := startDeployedNATS(t)
	api, continuer, worker, backend := nats.as("api"), nats.as("continuer"), nats.as("worker"), nats.as("backend")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	must(t, continuer.EnsureStreams(ctx))
	must(t, worker.EnsureStreams(ctx))

	signals := signalsOf(t, continuer)
	must(t, api.PublishSignals(ctx, []bus.Signal{{Tenant: tenant, Topic: "chat", Version: 1}}))
	receive(t, signals, "the continuer hears the api")
	signals = signalsOf(t, api)
	must(t, worker.PublishSignals(ctx, []bus.Signal{{Tenant: tenant, Topic: "chat", Version: 2}}))
	receive(t, signals, "the api hears the worker")

	hint := bus.RunHint{Tenant: tenant, Call: model.NewCallID(), Fence: 1}
	_, err := continuer.PublishRuns(ctx, []bus.RunHint{hint})
	must(t, err)
	runs := make(chan bus.Delivery, 1)
	inBackground(t, func(ctx context.Context) error {
		return worker.ConsumeRuns(ctx, bus.ConsumeOptions{Durable: "workers", Slots: bus.NewSlots(1)}, func(d bus.Delivery) { runs <- d })
	})
	receive(t, runs, "the worker gets a hint").Ack()

	toModel := bus.ModelHint{Tenant: tenant, Turn: model.NewTurnID()}
	_, err = continuer.PublishModelHints(ctx, []bus.ModelHint{toModel})
	must(t, err)
	models := make(chan bus.ModelDelivery, 1)
	inBackground(t, func(ctx context.Context) error {
		return worker.ConsumeModelHints(ctx, bus.ConsumeOptions{Durable: "workers", Slots: bus.NewSlots(1)}, func(d bus.ModelDelivery) { models <- d })
	})
	receive(t, models, "the worker's model loop gets a hint").Ack()
	must(t, worker.PublishChunks(ctx, bus.Chunks{Tenant: tenant, Turn: toModel.Turn, Fence: 1, Lines: []byte("{}\n"), Count: 1}))

	must(t, worker.PublishHeartbeat(ctx, bus.Heartbeat{Worker: "w1", At: time.Now()}))
	if beats, err := api.Heartbeats(ctx); err != nil || len(beats) != 1 {
		t.Errorf("the api sees the heartbeats %v, %v", beats, err)
	}

	message := bus.ContinuationMessage{Tenant: tenant, Sink: "chat", ID: "1", Body: []byte(`{}`)}
	_, err = continuer.PublishContinuations(ctx, []bus.ContinuationMessage{message})
	must(t, err)
	continuations := make(chan bus.ContinuationDelivery, 1)
	inBackground(t, func(ctx context.Context) error {
		options := bus.ConsumeContinuationsOptions{Tenant: tenant, Sink: "chat", Durable: "backend", Slots: bus.NewSlots(1)}
		return backend.ConsumeContinuations(ctx, options, func(d bus.ContinuationDelivery) { continuations <- d })
	})
	receive(t, continuations, "the backend gets a continuation").Ack()

	for name, b := range map[string]*bus.Bus{"api": api, "worker": worker, "backend": backend} {
		if acked, err := b.PublishContinuations(briefly(t), []bus.ContinuationMessage{message}); err == nil || len(acked) > 0 {
			t.Errorf("%s may send continuations", name)
		}
		if acked, err := b.PublishRuns(briefly(t), []bus.RunHint{hint}); err == nil || len(acked) > 0 {
			t.Errorf("%s may hint at runs", name)
		}
		if acked, err := b.PublishModelHints(briefly(t), []bus.ModelHint{toModel}); err == nil || len(acked) > 0 {
			t.Errorf("%s may hint at the model loop", name)
		}
	}
	if err := api.EnsureStreams(briefly(t)); err == nil {
		t.Error("api may make streams")
	}
	if _, err := backend.Heartbeats(briefly(t)); err == nil {
		t.Error("backend may list workers")
	}
}

// deployedNATS is a server with the configuration that is deployed, but for
// its addresses.
type deployedNATS struct {
	t      *testing.T
	server *server.Server
}

func startDeployedNATS(t *testing.T) *deployedNATS {
	t.Helper()
	for _, user := range []string{"API", "CONTINUER", "WORKER", "BACKEND"} {
		t.Setenv(user+"_PASSWORD", "secret")
	}
	t.Setenv("STORE_DIR", t.TempDir())
	options, err := server.ProcessConfigFile("nats.conf")
	must(t, err)
	options.Host, options.Port, options.HTTPPort = "127.0.0.1", server.RANDOM_PORT, 0
	options.NoSigs, options.NoLog = true, true
	nats, err := server.NewServer(options)
	must(t, err)
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	if !nats.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return &deployedNATS{t: t, server: nats}
}

// as connects one user, under the name by which it is deployed.
func (n *deployedNATS) as(user string) *bus.Bus {
	n.t.Helper()
	url := fmt.Sprintf("nats://%s:secret@%s", user, n.server.Addr())
	b, err := bus.Connect(url, user, slog.New(slog.DiscardHandler))
	must(n.t, err)
	n.t.Cleanup(b.Close)
	if !b.Connected() {
		n.t.Fatalf("%s is not let in", user)
	}
	return b
}

func signalsOf(t *testing.T, b *bus.Bus) <-chan bus.Signal {
	t.Helper()
	signals := make(chan bus.Signal, 8)
	cancel, err := b.SubscribeSignals(bus.SignalSubscription{
		Handle: func(s bus.Signal) { signals <- s }, Resync: func() {},
	})
	must(t, err)
	t.Cleanup(cancel)
	return signals
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
		panic("unreachable")
	}
}

// inBackground runs consume until the test ends.
func inBackground(t *testing.T, consume func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := consume(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// briefly bounds what must not succeed.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
