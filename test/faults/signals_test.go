package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
)

// Not one signal arrives. Windows on another node, workers and continuers
// find by their sweeps what they were not told.
func TestFault28NoSignalArrives(t *testing.T) {
	t.Parallel()
	server := testservers.NATSProcess(t, localservers.NATSProcessOptions{Deny: "countersign.invalidated.>"})
	d := onNATS(t, server.URL())
	start(d)
	w := newTraffic(t, d)
	registered, err := d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("write", "c", json.RawMessage(`{}`))}})
	must(t, err)
	versions := follow(t, d.Node(1), "t")
	seen(t, versions, registered.Topic.Version)
	decided, err := d.Node(0).Decide(t.Context(), registered.Turn.Calls[0].ApprovalID, client.Decision{Approved: true})
	must(t, err)
	seen(t, versions, decided.Topic.Version+1) // and its run
	w.start(2).goesOn(10)
	w.keepsItsPromises()
	if heard, err := metric(t.Context(), d.API[1], "countersign_bus_delivered_total", `kind="signal"`); err != nil || heard > 0 {
		t.Errorf("%v signals arrived: %v", heard, err)
	}
}

// Signals that nobody of ours sent come as fast as NATS carries them, about
// topics that exist and with versions that never were. They cost little
// memory, hide nothing, and nobody's decision waits for them.
func TestFault29AFloodOfSignals(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	start(d)
	w := newTraffic(t, d)
	const topics = 50
	var calls [topics]client.Call
	for i := range topics {
		registered, err := d.Node(0).RegisterTurn(t.Context(), fmt.Sprintf("t%d", i), client.TurnRequest{MessageID: "m",
			Parts: []client.Part{client.ToolPart("write", "c", json.RawMessage(`{}`))}})
		must(t, err)
		calls[i] = client.Call{ID: registered.Turn.Calls[0].ID, ApprovalID: registered.Turn.Calls[0].ApprovalID}
	}
	versions := follow(t, d.Node(1), "t7")
	seen(t, versions, 1)
	w.start(2)
	sent := flood(t, d.NATS.URL(), topics, lasting(5_000_000, 200_000), func() { w.goesOn(5) })
	decided, err := d.Node(0).Decide(t.Context(), calls[7].ApprovalID, client.Decision{Approved: false})
	must(t, err)
	seen(t, versions, decided.Topic.Version)
	w.goesOn(5)
	w.keepsItsPromises()
	for _, s := range []*testcluster.Service{d.API[0], d.API[1], d.Continuers[0]} {
		if mib := memory(t, s); mib > 512 {
			t.Errorf("%s holds %d MiB after %d signals", s.Name, mib, sent)
		}
	}
}

// flood publishes signals about topics, and looks at the services meanwhile.
func flood(t *testing.T, url string, topics, signals int, meanwhile func()) (sent int) {
	t.Helper()
	nc, err := nats.Connect(url)
	must(t, err)
	defer nc.Close()
	for i := range signals {
		topic := fmt.Sprintf("t%d", i%topics)
		body := fmt.Sprintf(`{"tenant":"default","topic":%q,"version":%d}`, topic, 1+i*7919%1000)
		must(t, nc.Publish(bus.SignalSubject("default", model.TopicID(topic)), []byte(body)))
		if i == signals/2 {
			meanwhile()
		}
	}
	must(t, nc.FlushWithContext(withDeadline(t)))
	return signals
}

func withDeadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	t.Cleanup(cancel)
	return ctx
}

// memory is how much a process holds, in MiB.
func memory(t *testing.T, s *testcluster.Service) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return kib / 1024
		}
	}
	t.Fatal("its memory is not known")
	return 0
}
