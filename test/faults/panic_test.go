package faults

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/worker/pipeline"
	"github.com/countersign/countersign/services/worker/tool"
)

// minefield is executors of which some panic, by the name of their tool.
type minefield struct{}

func (minefield) Runner(p store.Prepared) (tool.Runner, error) { return mine(p.Call.Tool.Name), nil }

type mine string

func (m mine) Prepare(context.Context) (tool.Ready, error) {
	if m == "prepare" {
		panic("while it is prepared")
	}
	return m, nil
}

func (m mine) Run(context.Context, tool.Call) model.Result {
	if m == "run" {
		panic("while it runs")
	}
	return model.Result{Kind: model.ResultSucceeded, Output: []byte(`"done"`)}
}

func (mine) Release() {}

// An executor panics, before its tool was asked or after (23). The worker
// lives, no slot is lost, and each call ends as what it is: one that ran is
// unknown, one that could not be prepared is stopped when its time is over.
func TestFault23AnExecutorPanics(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.Ready()
	s := opens(d)
	for _, name := range []string{"run", "prepare", "work"} {
		s.sells(name, "unsafe")
	}
	const slots = 2
	s.worksHere(minefield{}, slots)
	var ran, stuck []string
	for i := range 2 * slots {
		ran = append(ran, s.order(fmt.Sprint("run", i), "run", `{}`).ID)
		stuck = append(stuck, s.order(fmt.Sprint("prepare", i), "prepare", `{}`).ID)
	}
	for _, call := range ran {
		if c := s.runIs(call, "outcome-unknown"); len(c.Attempts) != 1 {
			t.Errorf("it panicked: %s", c.Raw)
		}
	}
	for i := range 2 * slots {
		s.runIs(s.order(fmt.Sprint("work", i), "work", `{}`).ID, "succeeded")
	}
	for _, call := range stuck {
		d.Change(`update calls set queued_at = queued_at - interval '16 minutes' where run = 'queued' and call_id = $1`, call)
		if c := s.runIs(call, "stopped"); len(c.Attempts) != 0 || c.State != "output-error" {
			t.Errorf("it could not be prepared: %s", c.Raw)
		}
	}
}

// worksHere runs a worker in this process, with executors of the test's own.
func (s *shop) worksHere(tools pipeline.Tools, slots int) {
	s.T.Helper()
	log := slog.New(slog.NewTextHandler(s.T.Output(), nil))
	b, err := bus.Connect(s.NATS.URL(), "worker", log)
	must(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	worker := pipeline.New(s.Store, b, tools, pipeline.Options{Name: "here", Slots: slots, Lease: 3 * time.Second, Poll: 200 * time.Millisecond},
		log, nooptrace.NewTracerProvider().Tracer(""), noop.NewMeterProvider().Meter(""))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	s.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.T.Error(err)
		}
		b.Close()
	})
}
