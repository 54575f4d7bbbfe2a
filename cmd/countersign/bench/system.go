package bench

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	metrics "go.opentelemetry.io/otel/metric/noop"
	traces "go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/continuer/audit"
	"github.com/countersign/countersign/services/continuer/dispatch"
	"github.com/countersign/countersign/services/continuer/sweep"
	"github.com/countersign/countersign/services/worker/pipeline"
	"github.com/countersign/countersign/services/worker/tool"
)

// system is one node of each service in this process.
type system struct {
	api      *store.Store
	stores   []*store.Store
	buses    []*bus.Bus
	trips    *trips
	running  sync.WaitGroup
	cancel   context.CancelFunc
	tool     model.CallTool
	failures chan error
}

const (
	tenant   = model.TenantID("bench")
	sinkName = "bench"
)

func startSystem(ctx context.Context, postgres, nats string, inFlight int, log *slog.Logger) (*system, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &system{cancel: cancel, trips: &trips{byTurn: map[model.TurnID]*trip{}, byCall: map[model.CallID]*trip{}}, failures: make(chan error, 8)}
	var err error
	if s.api, _, err = s.node(postgres, nats, "api", log); err == nil {
		err = errors.Join(s.configure(ctx), s.startContinuer(ctx, postgres, nats, log), s.startWorker(ctx, postgres, nats, inFlight, log))
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *system) node(postgres, nats, name string, log *slog.Logger) (*store.Store, *bus.Bus, error) {
	b, err := bus.Connect(nats, name, log)
	if err != nil {
		return nil, nil, err
	}
	s.buses = append(s.buses, b)
	st, err := store.New(postgres, store.Options{Log: log, Changed: b.Announce})
	if err == nil {
		s.stores = append(s.stores, st)
	}
	return st, b, err
}

func (s *system) configure(ctx context.Context) error {
	if err := s.api.EnsureTenant(ctx, tenant); err != nil {
		return err
	}
	d := model.ToolDefinition{Name: "noop", Effect: model.EffectUnsafe, Executor: model.ExecutorWorker, MaxAttempts: 1,
		Timeout: model.Duration(10 * time.Second), HTTP: &model.HTTPTarget{Method: "POST", URL: "http://tool.invalid"}}
	_, hash, err := d.Encode()
	if err != nil {
		return err
	}
	s.tool = model.CallTool{Name: d.Name, Definition: hash, Effect: d.Effect, Executor: d.Executor, MaxAttempts: 1}
	_, err = s.api.PutTool(ctx, model.Tool{Tenant: tenant, Definition: d}, "bench", "bench")
	return err
}

func (s *system) startContinuer(ctx context.Context, postgres, nats string, log *slog.Logger) error {
	st, b, err := s.node(postgres, nats, "continuer", log)
	if err != nil {
		return err
	}
	d := dispatch.New(st, b, nil, log, traces.NewTracerProvider().Tracer(""), metrics.NewMeterProvider().Meter(""))
	sweeper := sweep.New(st, b, d.Dispatch, 5*time.Second, log, metrics.NewMeterProvider().Meter(""))
	cancel, err := b.SubscribeSignals(bus.SignalSubscription{Queue: "continuer", Handle: d.Look, Resync: func() { sweeper.Once(ctx) }})
	if err != nil {
		return err
	}
	s.run(ctx, b.Run)
	s.run(ctx, d.Run)
	s.run(ctx, sweeper.Run)
	s.run(ctx, audit.NewChainer(st, log).Run)
	s.run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		cancel()
		return nil
	})
	s.run(ctx, func(ctx context.Context) error {
		return s.api1().ConsumeContinuations(ctx, bus.ConsumeContinuationsOptions{
			Tenant: tenant, Sink: sinkName, Durable: "bench", Slots: bus.NewSlots(512),
		}, s.trips.continued)
	})
	return b.EnsureStreams(ctx)
}

func (s *system) api1() *bus.Bus { return s.buses[0] }

func (s *system) startWorker(ctx context.Context, postgres, nats string, inFlight int, log *slog.Logger) error {
	st, b, err := s.node(postgres, nats, "worker", log)
	if err != nil {
		return err
	}
	w := pipeline.New(st, b, tools{s.trips}, pipeline.Options{Name: "bench", Slots: max(inFlight, 16), Lease: time.Minute, Poll: 3 * time.Second},
		log, traces.NewTracerProvider().Tracer(""), metrics.NewMeterProvider().Meter(""))
	s.run(ctx, w.Run)
	return nil
}

func (s *system) run(ctx context.Context, part func(context.Context) error) {
	s.running.Go(func() {
		if err := part(ctx); err != nil && ctx.Err() == nil {
			s.failures <- err
		}
	})
}

func (s *system) stop() {
	s.cancel()
	s.running.Wait()
	for _, st := range s.stores {
		st.Close()
	}
	for _, b := range s.buses {
		b.Close()
	}
}

// tools is a tool that takes no time and notes when it was started.
type tools struct{ trips *trips }

func (t tools) Runner(store.Prepared) (tool.Runner, error) { return t, nil }

// Prepare has nothing to prepare.
func (t tools) Prepare(context.Context) (tool.Ready, error) { return t, nil }

// Release has nothing to give back.
func (t tools) Release() {}

// Run notes its start.
func (t tools) Run(_ context.Context, c tool.Call) model.Result {
	t.trips.started(c.ID)
	return model.Result{Kind: model.ResultSucceeded, Output: []byte(`{"ok":true}`)}
}
