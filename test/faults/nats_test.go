package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
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
	server := testservers.NATSProcess(t, localservers.NATSProcessOptions{})
	d := onNATS(t, server.URL())
	start(d)
	w := newTraffic(t, d).start(3)
	w.hintsArrive()
	for _, fault := range []func(*traffic, *localservers.NATSProcess){fault30Killed, fault36Paused, fault32Wiped, fault31Away} {
		fault(w, server)
		w.hintsArrive()
	}
	if w.refused > 0 || w.cut > 0 {
		t.Errorf("%d requests were refused and %d cut off for want of NATS", w.refused, w.cut)
	}
	if unknown := w.keepsItsPromises(); unknown > 0 {
		t.Errorf("%d outcomes are unknown for want of NATS", unknown)
	}
}

func fault30Killed(w *traffic, server *localservers.NATSProcess) {
	must(w.t, server.Kill())
	w.worksWithout(time.Second)
	must(w.t, server.Start(w.t.Context()))
}

// fault31Away: by themselves clients try sixty times; ours try for ever.
func fault31Away(w *traffic, server *localservers.NATSProcess) {
	must(w.t, server.Kill())
	w.worksWithout(lasting(10*time.Minute, 35*time.Second))
	must(w.t, server.Start(w.t.Context()))
}

// fault32Wiped: streams and consumers are made again, and what was hinted at
// is hinted at again from the rows.
func fault32Wiped(w *traffic, server *localservers.NATSProcess) {
	must(w.t, server.Kill())
	must(w.t, server.Wipe())
	must(w.t, server.Start(w.t.Context()))
}

// fault36Paused: its port takes connections, and nobody answers.
func fault36Paused(w *traffic, server *localservers.NATSProcess) {
	must(w.t, server.Pause())
	w.worksWithout(lasting(30*time.Second, 10*time.Second))
	must(w.t, server.Resume())
}

// JetStream's disk is full: hints are refused, counted and owed, decisions and
// runs go on, and what is owed is published when there is room again.
func TestFault33JetStreamIsFull(t *testing.T) {
	t.Parallel()
	server := testservers.NATSProcess(t, localservers.NATSProcessOptions{MaxStore: 1 << 20})
	d := onNATS(t, server.URL())
	start(d)
	w := newTraffic(t, d).start(3)
	w.hintsArrive()
	js := jetStream(t, server.URL())
	full := fillStore(t, js)
	grows(t, d.Continuers[0], "countersign_bus_failures_total", `kind="publish run"`)
	w.worksWithout(time.Second)
	must(t, js.DeleteStream(t.Context(), full))
	w.hintsArrive()
	if unknown := w.keepsItsPromises(); unknown > 0 || w.refused > 0 {
		t.Errorf("%d outcomes are unknown, %d requests were refused, for want of JetStream's disk", unknown, w.refused)
	}
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(testcluster.Deadline))
	must(t, err)
	return js
}

// fillStore fills JetStream's files with a stream of the test's own.
func fillStore(t *testing.T, js jetstream.JetStream) (stream string) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FILL", Subjects: []string{"fill"}})
	must(t, err)
	for _, size := range []int{64 << 10, 4 << 10, 1} {
		for err = nil; err == nil; {
			_, err = js.Publish(t.Context(), "fill", make([]byte, size))
		}
		if api, is := errors.AsType[*jetstream.APIError](err); !is || api.Code != 503 {
			t.Fatalf("the store takes no more: %v", err)
		}
	}
	return "FILL"
}

// A cluster of three servers, each stream on all of them. The leader of the
// hints is killed again and again while hints are published and acknowledged:
// a publish whose outcome is not known is sent again under its id.
func TestFault35TheLeaderOfACluster(t *testing.T) {
	t.Parallel()
	servers := testservers.NATSCluster(t, 3)
	d := onNATS(t, servers[0].URL()+","+servers[1].URL()+","+servers[2].URL())
	d.Env = append(d.Env, "COUNTERSIGN_NATS_REPLICAS=3")
	start(d)
	w := newTraffic(t, d).start(3)
	w.hintsArrive()
	for range 2 {
		i := leader(t, servers)
		must(t, servers[i].Kill())
		w.goesOn(10)
		w.hintsArrive()
		must(t, servers[i].Start(t.Context()))
	}
	i := leader(t, servers)
	must(t, servers[i].Pause()) // parted from the others, and not told
	w.goesOn(10)
	must(t, servers[i].Resume())
	w.hintsArrive()
	if unknown := w.keepsItsPromises(); unknown > 0 || w.refused > 0 {
		t.Errorf("%d outcomes are unknown, %d requests were refused, for want of a server of three", unknown, w.refused)
	}
}

// leader finds the server that leads the stream of hints, once all three of
// them have it.
func leader(t *testing.T, servers []*localservers.NATSProcess) (index int) {
	t.Helper()
	url := servers[0].URL() + "," + servers[1].URL() + "," + servers[2].URL()
	js := jetStream(t, url)
	testcluster.Eventually(t, "the stream of hints is on three servers", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // a request may get lost while there is no leader
		defer cancel()
		stream, err := js.Stream(ctx, bus.RunsStream)
		if err != nil {
			return err
		}
		cluster := stream.CachedInfo().Cluster
		if cluster == nil || len(cluster.Replicas) != 2 || cluster.Leader == "" {
			return fmt.Errorf("its cluster: %+v", cluster)
		}
		for _, replica := range cluster.Replicas {
			if !replica.Current || replica.Offline {
				return fmt.Errorf("%s is behind", replica.Name)
			}
		}
		_, err = fmt.Sscanf(cluster.Leader, "n%d", &index)
		return err
	})
	return index
}
