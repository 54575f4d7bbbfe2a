package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// A worker is parted from Postgres while its tools run, for longer than two
// leases. A keyed call is run again by another worker under the same key, and
// done once. A tool that may run once is unknown meanwhile; its worker knows
// what came of it, and says so when it can.
func TestFault52AWorkerIsPartedFromPostgresDuringItsRuns(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	network, url := through(t, d.Database)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0, "COUNTERSIGN_DATABASE_URL="+url, "COUNTERSIGN_WORKER_LEASE=2s")
	d.Ready()
	s := opens(d)
	s.sells("pay", "keyed")
	s.sells("mail", "unsafe")
	keyed := s.order("keyed", "pay", `{"behave":"late,answer","delay":"3s"}`).ID
	once := s.order("once", "mail", `{"behave":"late","delay":"3s"}`).ID
	s.took(keyed, 1)
	s.took(once, 1)
	breaks(t, network, parted)
	d.StartWorker(1)

	s.rowIs(once, "outcome-unknown")
	if c := s.runIs(keyed, "succeeded"); len(begun(c)) != 2 || len(s.requests(keyed)) != 2 {
		t.Errorf("the keyed one: %s", c.Raw)
	}
	testcluster.Eventually(t, "its leases are long over, and it still has a result to tell", func(ctx context.Context) error {
		over, err := testcluster.One[bool](ctx, d, `
			select lease_until < clock_timestamp() - interval '4 seconds' from calls where call_id = $1`, once)
		if err == nil && (!over || !d.Workers[0].Log.Contains("a result could not be committed, it is tried again")) {
			err = errors.New("not yet")
		}
		return err
	})
	must(t, network.Heal())
	if c := s.runIs(once, "succeeded"); len(begun(c)) != 1 || len(s.requests(once)) != 1 {
		t.Errorf("the one that may run once: %s", c.Raw)
	}
	s.took(keyed, 1)
	s.took(once, 1)
}

// An api node is parted from NATS, by silence and then by refusal: people
// decide there as before, what they approve is run, and their windows see that
// within a sweep.
func TestFault52AnAPINodeIsPartedFromNATS(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	network, url := through(t, d.NATS.URL())
	d.StartAPI(0, "COUNTERSIGN_NATS_URL="+url, "COUNTERSIGN_API_SWEEP_INTERVAL=500ms")
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	s := opens(d)
	_, err := d.Node(0).PutTool(t.Context(), "mail", client.Tool{HTTP: &client.HTTPTool{URL: s.url + "/mail"}})
	must(t, err)
	works := func(topic string) {
		t.Helper()
		call := s.order(topic, "mail", `{}`)
		ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
		defer cancel()
		decided := false
		for e, err := range d.Node(0).Events(ctx, topic, client.FromNow) {
			must(t, err)
			if e.Status == nil {
				continue
			}
			if !decided {
				decided = true
				_, err := d.As(0, "user:bob").Decide(ctx, call.ApprovalID, client.Decision{Approved: true})
				must(t, err)
			}
			if len(e.Status.Turns) == 1 && e.Status.Turns[0].State == "continuing" {
				break
			}
		}
		if got := s.effects(call.ID); len(got) != 1 {
			t.Errorf("%s: %d effects", topic, len(got))
		}
	}
	works("before")
	breaks(t, network, parted)
	works("silent")
	breaks(t, network, proxy.Faults{Refuse: true})
	if network.Cut() == 0 {
		t.Error("there was no connection to cut")
	}
	works("refused")
	must(t, network.Heal())
	works("after")
}
