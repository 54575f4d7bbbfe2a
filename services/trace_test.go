package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// The trace in which a backend registers a turn, and its span.
const (
	backendTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	backendSpan  = "00f067aa0ba902b7"
)

// The way of one call as its trace shows it. No span of it was open while a
// person thought: the decision is a trace of its own.
const wayOfACall = `api: POST /v1/topics/{topic}/turns
  api: evaluate
  api: register
  continuer: dispatch
    worker: run delete_file
      worker: prepare
      worker: claim
      worker: execute
      worker: finish
  continuer: continue
`

// One trace leads from the request that registered the turn, through its row
// and the headers of messages, to the tool and to the continuation.
func TestOneTraceFromRegistrationToContinuation(t *testing.T) {
	t.Parallel()
	spans := newSpanCollector(t)
	d := servers(t)
	d.StartAPI(0, spans.env()...)
	d.StartWorker(0, append(spans.env(), "COUNTERSIGN_WORKER_POLL=1h")...)
	d.StartContinuer(0, append(spans.env(), "COUNTERSIGN_SWEEP_INTERVAL=1h")...)
	d.Ready()
	heard := d.listen()
	ctx := t.Context()
	tool := newToolServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `"the answer is hush"`) })
	must(t, second(d.Node(0).PutTool(ctx, "delete_file", tool.tool("unsafe"))))
	secret, err := d.Node(0).SigningSecret(ctx)
	must(t, err)
	chat := newBackend(t, secret.Secret)

	traced := client.New(d.API[0].URL, d.Key, client.WithHTTPClient(&http.Client{Transport: tracing{}}))
	turn, err := traced.RegisterTurn(ctx, "t", client.TurnRequest{MessageID: "m", Sink: &client.Sink{Type: "webhook", URL: chat.URL},
		Parts: []client.Part{client.ToolPart("delete_file", "c", json.RawMessage(`{"path":"hush"}`))}})
	must(t, err)
	must(t, second(d.As(0, "user:bob").Decide(ctx, turn.Turn.Calls[0].ApprovalID, client.Decision{Approved: true, Reason: "hush"})))
	<-chat.arrived

	var way []span
	testcluster.Eventually(t, "every span is there", func(context.Context) error {
		way = spans.of(backendTrace)
		if got := tree(way, backendSpan); got != wayOfACall || len(spans.named("decide")) == 0 {
			return fmt.Errorf("the trace is (-want +got)\n%s", gocmp.Diff(wayOfACall, got))
		}
		return nil
	})
	requireCarried(t, way, tool.ran()[0].traceparent, "execute")
	requireCarried(t, way, chat.deliveries()[0].traceparent, "continue")
	requireCarried(t, way, heard.traceparent(t, "countersign.runs.default"), "dispatch")
	requireLinked(t, way, spans.named("decide")[0])
	requireIDsOnly(t, append(way, spans.named("decide")...))
}

// tracing sends a request as part of the backend's trace.
type tracing struct{}

// RoundTrip adds the header.
func (tracing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("traceparent", "00-"+backendTrace+"-"+backendSpan+"-01")
	return http.DefaultTransport.RoundTrip(r)
}

// requireCarried: what was sent names the trace, and the span that sent it.
func requireCarried(t *testing.T, way []span, traceparent, name string) {
	t.Helper()
	if want := "00-" + backendTrace + "-" + find(t, way, name).id + "-01"; traceparent != want {
		t.Errorf("%s sent the traceparent %q, want %q", name, traceparent, want)
	}
}

// requireLinked: the decision is in another trace, linked to that of the turn,
// and what went before it had ended.
func requireLinked(t *testing.T, way []span, decide span) {
	t.Helper()
	registered := find(t, way, "POST /v1/topics/{topic}/turns")
	if want := backendTrace + "/" + registered.id; decide.trace == backendTrace || len(decide.links) != 1 || decide.links[0] != want {
		t.Errorf("the decision is of trace %s and linked to %v, want another trace and %s", decide.trace, decide.links, want)
	}
	for _, s := range way {
		if s.begin.Before(decide.begin) && s.end.After(decide.begin) {
			t.Errorf("%s was open while a person thought: %s to %s", s.name, s.begin, s.end)
		}
	}
}

// requireIDsOnly: nothing that a model, a tool or a person said is in a span.
func requireIDsOnly(t *testing.T, spans []span) {
	t.Helper()
	for _, s := range spans {
		for key, value := range s.about {
			if strings.Contains(value, "hush") {
				t.Errorf("the span %s says %s = %s", s.name, key, value)
			}
		}
	}
}

// listener keeps every message that goes over NATS.
type listener struct {
	mu   sync.Mutex
	msgs []*nats.Msg
}

func (d *deployment) listen() *listener {
	d.T.Helper()
	nc, err := nats.Connect(d.NATS.URL())
	must(d.T, err)
	d.T.Cleanup(nc.Close)
	l := &listener{}
	must(d.T, second(nc.Subscribe("countersign.>", func(m *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.msgs = append(l.msgs, m)
	})))
	must(d.T, nc.Flush())
	return l
}

// traceparent gives the header of the only message on a subject, by the very
// key that W3C asks for: NATS keeps the case of header keys.
func (l *listener) traceparent(t *testing.T, subject string) string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, m := range l.msgs {
		if m.Subject == subject {
			found = append(found, fmt.Sprint(m.Header["traceparent"]))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d messages on %s, want 1", len(found), subject)
	}
	return strings.Trim(found[0], "[]")
}
