package faults

import (
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
)

// onNATS is a deployment that uses the NATS at url.
func onNATS(t *testing.T, url string) *testcluster.Deployment {
	t.Helper()
	d := testcluster.Servers(t)
	d.Env = append(d.Env, "COUNTERSIGN_NATS_URL="+url)
	return d
}

// worksWithout shows that decisions and runs go on for a while.
func (w *traffic) worksWithout(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); ; {
		w.goesOn(3)
		if time.Now().After(end) {
			return
		}
	}
}

// hintsArrive shows that what is queued reaches a worker as a hint again, and
// is not only found by its look at the rows.
func (w *traffic) hintsArrive() {
	w.t.Helper()
	grows(w.t, w.d.Workers[0], "countersign_bus_delivered_total", `kind="run"`)
	grows(w.t, w.d.API[0], "countersign_bus_delivered_total", `kind="signal"`)
}

// NATS is killed and started, is away for longer than clients give it by
// themselves, comes back with an empty store, and is paused. Decisions and
// runs go on all the time, by the rows, and hints flow again when it is back.
func TestFault30To32And36NATSIsKilledAwayWipedAndPaused(t *testing.T) {
	t.Parallel()
	nats := testservers.NATSProcess(t, 0)
	d := onNATS(t, nats.URL())
	start(d)
	w := newTraffic(t, d).start(3)
	w.hintsArrive()
	for _, fault := range []func(*traffic, *localservers.NATSProcess){fault30Killed, fault36Paused, fault32Wiped, fault31Away} {
		fault(w, nats)
		w.hintsArrive()
	}
	if w.refused > 0 || w.cut > 0 {
		t.Errorf("%d requests were refused and %d cut off for want of NATS", w.refused, w.cut)
	}
	if unknown := w.keepsItsPromises(); unknown > 0 {
		t.Errorf("%d outcomes are unknown for want of NATS", unknown)
	}
}

func fault30Killed(w *traffic, nats *localservers.NATSProcess) {
	must(w.t, nats.Kill())
	w.worksWithout(time.Second)
	must(w.t, nats.Start(w.t.Context()))
}

// fault31Away: by themselves clients try sixty times; ours try for ever.
func fault31Away(w *traffic, nats *localservers.NATSProcess) {
	must(w.t, nats.Kill())
	w.worksWithout(lasting(10*time.Minute, 35*time.Second))
	must(w.t, nats.Start(w.t.Context()))
}

// fault32Wiped: streams and consumers are made again, and what was hinted at
// is hinted at again from the rows.
func fault32Wiped(w *traffic, nats *localservers.NATSProcess) {
	must(w.t, nats.Kill())
	must(w.t, nats.Wipe())
	must(w.t, nats.Start(w.t.Context()))
}

// fault36Paused: its port takes connections, and nobody answers.
func fault36Paused(w *traffic, nats *localservers.NATSProcess) {
	must(w.t, nats.Pause())
	w.worksWithout(lasting(30*time.Second, 10*time.Second))
	must(w.t, nats.Resume())
}
