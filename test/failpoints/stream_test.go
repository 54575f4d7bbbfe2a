package failpoints

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/countersign/countersign/pkg/bus"
)

// sinkName is the JetStream sink of the backend.
const sinkName = "chat"

// consumeStream takes from the JetStream sink, as the webhook takes from HTTP.
func (s *stage) consumeStream(t *testing.T) {
	t.Helper()
	b, err := bus.Connect(s.NATS.URL(), "backend", slog.New(slog.DiscardHandler))
	must(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- b.ConsumeContinuations(t.Context(), bus.ConsumeContinuationsOptions{
			Tenant: "default", Sink: sinkName, Durable: "backend", Slots: bus.NewSlots(4),
		}, func(m bus.ContinuationDelivery) {
			var e event
			if json.Unmarshal(m.Body, &e) == nil {
				s.hand(e)
			}
			m.Ack()
		})
	}()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.Close()
	})
}
