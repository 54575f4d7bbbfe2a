package services

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
)

// jetstream is a client of the test's own to the streams.
func (d *deployment) jetstream() jetstream.JetStream {
	d.T.Helper()
	nc, err := nats.Connect(d.NATS.URL())
	must(d.T, err)
	d.T.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(d.T, err)
	return js
}

// hintsAreDone tells whether the workers have settled every hint.
func hintsAreDone(ctx context.Context, js jetstream.JetStream) error {
	consumer, err := js.Consumer(ctx, bus.RunsStream, "workers")
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err == nil && (info.NumPending > 0 || info.NumAckPending > 0) {
		err = fmt.Errorf("%d hints wait, %d are not settled", info.NumPending, info.NumAckPending)
	}
	return err
}

// I8: the stream of hints may be deleted while calls are queued: the rows
// refill it, and everything runs once.
func TestI8ADeletedStreamOfHintsLosesNothing(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.Ready()
	tool := d.allowed("sweep_floor", "unsafe", says(http.StatusOK, `1`))
	const calls = 20
	var ids []string
	for i := range calls {
		ids = append(ids, d.start(fmt.Sprintf("t%d", i), "sweep_floor")[0].ID)
	}
	for _, id := range ids {
		testcluster.Eventually(t, "the call is hinted at", func(ctx context.Context) error { return d.hinted(ctx, id) })
	}
	js := d.jetstream()
	must(t, js.DeleteStream(t.Context(), bus.RunsStream))
	d.StartWorker(0)
	d.StartWorker(1)
	for _, id := range ids {
		d.runIs(id, "succeeded")
	}
	must(t, js.DeleteStream(t.Context(), bus.RunsStream))
	d.runIs(d.start("after", "sweep_floor")[0].ID, "succeeded")
	if n := len(tool.ran()); n != calls+1 {
		t.Errorf("it ran %d times, want %d", n, calls+1)
	}
}

// I6: the kill switch stops what has not started, and what comes while it is
// on.
func TestI6TheKillSwitchStopsWhatIsQueued(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.Ready()
	tool := d.allowed("launch", "unsafe", says(http.StatusOK, `1`))
	queued := d.start("before", "launch")[0]
	must(t, d.Store.Halt(t.Context(), "default", true, "test", "test"))
	d.StartWorker(0)
	late := d.start("while", "launch")[0]
	for _, call := range []string{queued.ID, late.ID} {
		if c := d.runIs(call, "stopped"); c.State != "output-error" || len(c.Attempts) != 0 {
			t.Errorf("stopped: %s", c.Raw)
		}
	}
	for _, topic := range []string{"before", "while"} { // the model is told, and the conversation goes on
		d.status(topic, "pending")
	}
	must(t, d.Store.Halt(t.Context(), "default", false, "test", "test"))
	d.runIs(d.start("after", "launch")[0].ID, "succeeded")
	if n := len(tool.ran()); n != 1 {
		t.Errorf("it ran %d times, want once", n)
	}
}
