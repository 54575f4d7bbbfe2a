package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAContinuationReachesItsSinkAndNoOther(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	type received struct{ ID, Body, Traceparent string }
	var mu sync.Mutex
	got := map[string][]received{}
	for _, sink := range []string{"bot", "bo.t", "*"} {
		background(t, func(ctx context.Context) error {
			options := ConsumeContinuationsOptions{Tenant: "a b", Sink: sink, Durable: "node", Slots: NewSlots(4)}
			return b.ConsumeContinuations(ctx, options, func(d ContinuationDelivery) {
				mu.Lock()
				defer mu.Unlock()
				got[sink] = append(got[sink], received{d.ID, string(d.Body), d.Traceparent})
				d.Ack()
			})
		})
	}
	var messages []ContinuationMessage
	for _, sink := range []string{"bot", "bo.t", "*"} {
		messages = append(messages, ContinuationMessage{
			Tenant: "a b", Sink: sink, ID: "turn:" + sink, Body: []byte(fmt.Sprintf(`{"sink":%q}`, sink)), Traceparent: someTraceparent,
		})
	}
	messages = append(messages, ContinuationMessage{Tenant: "a", Sink: "bot", ID: "other", Body: []byte(`{}`)})
	for range 2 { // the second time they are duplicates
		if acked, err := b.PublishContinuations(t.Context(), messages); err != nil || len(acked) != len(messages) {
			t.Fatalf("published %d of %d: %v", len(acked), len(messages), err)
		}
	}
	eventually(t, "all acknowledged", func() bool { return b.counts.get("acked", "continuation") == 3 })
	mu.Lock()
	defer mu.Unlock()
	for _, sink := range []string{"bot", "bo.t", "*"} {
		want := []received{{"turn:" + sink, fmt.Sprintf(`{"sink":%q}`, sink), someTraceparent}}
		if diff := cmp.Diff(want, got[sink]); diff != "" {
			t.Errorf("sink %q (-want +got):\n%s", sink, diff)
		}
	}
}

func TestTheLastHeartbeatOfEachWorkerIsListed(t *testing.T) {
	t.Parallel()
	b := ready(t, startServer(t))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []Heartbeat{
		{Worker: "host.1/worker", Version: "v1", Slots: 8, Running: 3, At: at},
		{Worker: "host.2/worker", Version: "v2", Slots: 4, At: at},
	}
	for _, heartbeat := range append([]Heartbeat{{Worker: "host.1/worker", Running: 9}}, want...) {
		if err := b.PublishHeartbeat(t.Context(), heartbeat); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.js.Publish(t.Context(), HeartbeatSubject("forged"), []byte(`{"worker":"host.1/worker"}`)); err != nil {
		t.Fatal(err)
	}
	got, err := b.Heartbeats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("heartbeats (-want +got):\n%s", diff)
	}
}
