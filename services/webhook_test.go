package services

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/client"
)

// Continuations reach their sinks through faults of the receiver, of time and
// of the continuers: always under the same id, never two at once, and a person
// hears of what could not be delivered for a day. Two continuers race for all
// of it.
func TestContinuationsReachTheirSinks(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0, "COUNTERSIGN_SWEEP_INTERVAL=100ms")
	d.StartContinuer(1, "COUNTERSIGN_SWEEP_INTERVAL=100ms")
	d.Ready()
	for name, test := range map[string]func(*testing.T, *deployment){
		"a failed delivery is tried again under its id":        failedDelivery,
		"what nobody accepts in time is delivered again":       unaccepted,
		"after a day it fails, and is delivered when redriven": deadLetter,
		"two continuers deliver each once":                     oncePerAttempt,
		"during a rotation both secrets sign":                  rotation,
		"a JetStream sink is consumed":                         jetStreamSink,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d.in(t))
		})
	}
}

func failedDelivery(t *testing.T, d *deployment) {
	to := newReceiver(t, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusNoContent)
	secret := d.secret() // from before any rotation, and good after it
	turn := d.settled("failed", to.sink())
	for n, reason := range []string{"500 Internal Server Error", "503 Service Unavailable", "400 Bad Request"} {
		to.next(t)
		wait := d.failedTries(turn.ID, n+1, reason)
		if most := 1.2 * float64(int(1)<<n); wait > most {
			t.Errorf("after try %d it waits %.1f s, want at most %.1f", n+1, wait, most)
		}
		d.due(turn.ID)
	}
	to.next(t)
	d.continuation(turn.ID, "dispatched")
	for _, got := range to.received() {
		if want := "cont_" + turn.ID + "_0"; got.id != want || got.continues != turn.ID {
			t.Errorf("delivered %s under %s, want %s", got.continues, got.id, want)
		}
		got.verify(t, secret)
	}
}

// failedTries waits until n tries of a delivery are recorded, and gives how
// many seconds are left until the next.
func (d *deployment) failedTries(turn string, n int, reason string) (wait float64) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the failed try is recorded", func(ctx context.Context) error {
		var tries int
		var why string
		err := d.Rows().QueryRowContext(ctx, `select deliveries, last_error, extract(epoch from next_at - clock_timestamp())
			from continuations where turn_id = $1`, turn).Scan(&tries, &why, &wait)
		if err == nil && (tries < n || !strings.Contains(why, reason)) {
			err = fmt.Errorf("%d tries, the last: %s", tries, why)
		}
		return err
	})
	return wait
}

// due lets the time until the next delivery pass.
func (d *deployment) due(turn string) {
	d.T.Helper()
	d.Change(`update continuations set next_at = clock_timestamp() - interval '2 seconds' where turn_id = $1`, turn)
}

func unaccepted(t *testing.T, d *deployment) {
	to := newReceiver(t)
	sink := to.sink()
	sink.AcceptWithin = "1h"
	turn := d.settled("unaccepted", sink)
	to.next(t)
	d.continuation(turn.ID, "dispatched")
	within, err := testcluster.One[float64](t.Context(), d.Deployment, `select extract(epoch from next_at - delivered_at) from continuations where turn_id = $1`, turn.ID)
	if err != nil || within < 3599 || within > 3601 {
		t.Fatalf("it is due again after %f s, %v; want an hour", within, err)
	}
	d.due(turn.ID)
	to.next(t)
	got := to.received()
	if len(got) != 2 || got[0].id != got[1].id || got[0].continues != got[1].continues {
		t.Fatalf("delivered: %+v", got)
	}
	d.accept("unaccepted", turn)
	d.continuation(turn.ID, "accepted")
}

func deadLetter(t *testing.T, d *deployment) {
	to := newReceiver(t, http.StatusInternalServerError, http.StatusOK)
	turn := d.settled("dead", to.sink())
	to.next(t)
	d.failedTries(turn.ID, 1, "500")
	d.Change(`update continuations set ready_at = ready_at - interval '25 hours' where turn_id = $1`, turn.ID)
	failed := d.continuation(turn.ID, "failed")
	if !strings.Contains(failed.LastError, "500") {
		t.Errorf("why it failed: %q", failed.LastError)
	}
	d.status("dead", "error")
	must(t, second(d.Node(0).Redrive(t.Context(), turn.ID)))
	to.next(t)
	if got := to.received(); got[0].id != got[1].id {
		t.Errorf("redriven under %s, before under %s", got[1].id, got[0].id)
	}
	d.continuation(turn.ID, "dispatched")
	d.status("dead", "pending")
	d.accept("dead", turn)
	d.status("dead", "done")
	if _, err := d.Node(0).Redrive(t.Context(), turn.ID); !client.Is(err, "continuation-accepted") {
		t.Errorf("redriven after it was accepted: %v", err)
	}
}

func oncePerAttempt(t *testing.T, d *deployment) {
	const turns = 40
	to := newReceiver(t)
	var registered [turns]client.Turn
	var backends sync.WaitGroup
	for i := range turns {
		backends.Go(func() { registered[i] = d.settled(fmt.Sprintf("once-%d", i), to.sink()) })
	}
	backends.Wait()
	for attempt := 1; attempt <= 2; attempt++ {
		for range turns {
			to.next(t)
		}
		for _, turn := range registered {
			d.delivered(turn.ID, attempt)
		}
		times := map[string]int{}
		for _, got := range to.received() {
			times[got.continues]++
		}
		for turn, n := range times {
			if n != attempt {
				t.Errorf("turn %s was delivered %d times, want %d", turn, n, attempt)
			}
		}
		must(t, second(d.Rows().ExecContext(t.Context(),
			`update continuations set next_at = clock_timestamp() - interval '2 seconds' where topic_id like 'once-%' and state = 'dispatched'`)))
	}
}

// delivered waits until n deliveries of a continuation are marked.
func (d *deployment) delivered(turn string, n int) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the delivery is marked", func(ctx context.Context) error {
		marked, err := testcluster.One[int](ctx, d.Deployment, `select deliveries from continuations where turn_id = $1 and state = 'dispatched'`, turn)
		if err == nil && marked != n {
			err = fmt.Errorf("%d deliveries are marked, want %d", marked, n)
		}
		return err
	})
}

func rotation(t *testing.T, d *deployment) {
	before := d.secret()
	rotated, err := d.Node(0).RotateSigningSecret(t.Context())
	must(t, err)
	if rotated.Previous != before || rotated.Secret == before {
		t.Fatalf("rotated: %+v", rotated)
	}
	to := newReceiver(t)
	d.settled("rotated", to.sink())
	to.next(t)
	got := to.received()[0]
	got.verify(t, before)
	got.verify(t, rotated.Secret)
}

// A backend's nodes consume a JetStream sink with the client for Go: each
// delivery goes to one of them.
func jetStreamSink(t *testing.T, d *deployment) {
	b, err := bus.Connect(d.NATS.URL(), "backend", slog.New(slog.DiscardHandler))
	must(t, err)
	defer b.Close()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan bus.ContinuationDelivery, 16)
	var nodes sync.WaitGroup
	for range 2 {
		nodes.Go(func() {
			err := b.ConsumeContinuations(ctx, bus.ConsumeContinuationsOptions{
				Tenant: "default", Sink: "chat bot", Durable: "backend", Slots: bus.NewSlots(4),
			}, func(m bus.ContinuationDelivery) { m.Ack(); got <- m })
			if err != nil {
				t.Errorf("consume: %v", err)
			}
		})
	}
	defer nodes.Wait()
	defer stop()

	turn := d.settled("streamed", client.Sink{Type: "jetstream", Name: "chat bot"})
	first := <-got
	d.continuation(turn.ID, "dispatched")
	d.due(turn.ID)
	again := <-got
	for _, m := range []bus.ContinuationDelivery{first, again} {
		if e := decode(t, m.Body); e.Type != "continuation.ready" || e.Data.ContinuationID != turn.ID || e.Data.Topic != "streamed" {
			t.Errorf("delivered: %s", m.Body)
		}
		if len(m.Traceparent) != 55 {
			t.Errorf("traceparent %q", m.Traceparent)
		}
	}
	if first.ID == again.ID {
		t.Errorf("a repetition that is meant has the message id of the first, %s", again.ID)
	}
	d.accept("streamed", turn)
	d.continuation(turn.ID, "accepted")
}

// receiver is a webhook that answers as it is told, and 204 after that.
type receiver struct {
	*httptest.Server
	answers []int
	tries   atomic.Int64
	arrived chan struct{}

	mu  sync.Mutex
	got []received
}

type received struct {
	id, continues string
	header        http.Header
	body          []byte
}

func newReceiver(t *testing.T, answers ...int) *receiver {
	t.Helper()
	r := &receiver{answers: answers, arrived: make(chan struct{}, 1024)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		r.got = append(r.got, received{request.Header.Get("webhook-id"), decode(t, body).Data.ContinuationID, request.Header, body})
		r.mu.Unlock()
		if n := int(r.tries.Add(1)); n <= len(r.answers) {
			w.WriteHeader(r.answers[n-1])
		} else {
			w.WriteHeader(http.StatusNoContent)
		}
		r.arrived <- struct{}{}
	}))
	t.Cleanup(r.Close)
	return r
}

func decode(t *testing.T, body []byte) (d delivery) {
	t.Helper()
	if err := json.Unmarshal(body, &d); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	return d
}

func (r *receiver) sink() client.Sink { return client.Sink{Type: "webhook", URL: r.URL} }

// next waits for one more delivery.
func (r *receiver) next(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	select {
	case <-r.arrived:
	case <-ctx.Done():
		t.Fatal("nothing was delivered")
	}
}

func (r *receiver) received() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func (r received) verify(t *testing.T, secret string) {
	t.Helper()
	verifier, err := webhooks.NewWebhook(secret)
	must(t, err)
	if err := verifier.Verify(r.body, r.header); err != nil {
		t.Errorf("the signature does not verify: %v", err)
	}
}
