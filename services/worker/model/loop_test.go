package model

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	noopmetric "go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const tenant = model.TenantID("acme")

// newLoop is the model loop of one worker of many.
func newLoop(t *testing.T, database, nats, provider string) (*Loop, *store.Store) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := store.New(database, store.Options{Log: log})
	must(t, err)
	t.Cleanup(s.Close)
	b, err := bus.Connect(nats, "worker", log)
	must(t, err)
	t.Cleanup(b.Close)
	out, err := egress.NewEgress([]string{"127.0.0.0/8"})
	must(t, err)
	p, err := NewProvider(out.HTTPClient(0), provider, "key")
	must(t, err)
	return New(s, b, p, Options{Ask: model.Ask{Model: "m"}, Slots: 4, Poll: time.Second, Expiry: time.Hour, Silent: time.Minute}, log,
		nooptrace.NewTracerProvider().Tracer(""), noopmetric.NewMeterProvider().Meter("")), s
}

// I2: of two workers that are hinted at the same continuation at once, one
// asks the model, and both are done with the hint.
func TestI2OneWorkerAnswers(t *testing.T) {
	t.Parallel()
	server := scripted.New(func(scripted.Request) scripted.Answer {
		return scripted.Stream(scripted.Say("Done."), scripted.End("stop"))
	})
	provider := httptest.NewServer(server)
	t.Cleanup(provider.Close)
	database, nats := testservers.Database(t, store.Migrate), testservers.NATS(t).URL()
	one, s := newLoop(t, database, nats, provider.URL)
	other, _ := newLoop(t, database, nats, provider.URL)
	must(t, s.EnsureTenant(t.Context(), tenant))

	const topics = 8
	var hints sync.WaitGroup
	for i := range topics {
		topic := model.TopicID(fmt.Sprint("t", i))
		part := strictjson.Raw(`{"type":"tool-nobody_has_this","toolCallId":"c","state":"input-available","input":{}}`)
		asked, err := one.cases.Register(t.Context(), approval.Origin{By: model.Principal{Tenant: tenant, Subject: "key:k"}, Channel: "api"}, topic,
			approval.TurnRequest{MessageID: "m", Parts: []strictjson.Raw{part}, Sink: &approval.SinkRequest{Type: "model"}})
		must(t, err)
		for _, l := range []*Loop{one, other} {
			hints.Go(func() {
				if err := l.answer(tenant, asked.Turn.ID, ""); err != nil {
					t.Errorf("%s: %v", topic, err)
				}
			})
		}
	}
	hints.Wait()
	if n := len(server.Requests()); n != topics {
		t.Errorf("the model was asked %d times about %d turns", n, topics)
	}
	for i := range topics {
		h, err := s.Messages(t.Context(), tenant, model.TopicID(fmt.Sprint("t", i)), store.Range{})
		must(t, err)
		if len(h.Messages) != 1 || len(h.Messages[0].Turns) != 2 || h.Messages[0].Turns[1].State() != model.TurnDone {
			t.Errorf("t%d: %+v", i, h.Messages)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
