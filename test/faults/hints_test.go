package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
)

// hints publishes, straight to NATS, what only services should.
type hints struct {
	t  *testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

func hinter(t *testing.T, d *testcluster.Deployment) *hints {
	t.Helper()
	nc, err := nats.Connect(d.NATS.URL())
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return &hints{t, nc, js}
}

// flood hints at each call several times, with fences that are right and
// wrong, in any order.
func (h *hints) flood(calls ...string) {
	h.t.Helper()
	var bodies []string
	for _, call := range calls {
		for fence := range 4 {
			bodies = append(bodies, fmt.Sprintf(`{"tenant":"default","call":%q,"fence":%d,"publish":0}`, call, fence))
		}
	}
	rand.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	for _, body := range bodies {
		_, err := h.js.Publish(h.t.Context(), "countersign.runs.default", []byte(body))
		must(h.t, err)
	}
}

// done tells whether the workers have settled every hint.
func (h *hints) done(ctx context.Context) error {
	consumer, err := h.js.Consumer(ctx, bus.RunsStream, "workers")
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err == nil && (info.NumPending > 0 || info.NumAckPending > 0) {
		err = fmt.Errorf("%d hints wait, %d are not settled", info.NumPending, info.NumAckPending)
	}
	return err
}
