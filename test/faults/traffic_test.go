package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// patience is how long one try of a request may take: every bound of the
// services together is below it, so whoever waits longer was left hanging.
const patience = 25 * time.Second

// traffic is people and backends at work while something breaks: each
// registers a call, decides it, and takes up the next one when both were
// acknowledged. What is not answered is asked for again, of the other node.
type traffic struct {
	t      *testing.T
	d      *testcluster.Deployment
	tool   *ledger
	nodes  []*client.Client
	stops  atomic.Bool
	people sync.WaitGroup

	mu       sync.Mutex
	answered []answered
	refused  int           // tries that were answered with 503
	cut      int           // tries that were not answered
	slowest  time.Duration // of all tries
}

// answered is a decision that was acknowledged.
type answered struct {
	call, approval, decision string
	approved                 bool
}

// newTraffic defines the tool that the calls are of. The services must be
// ready.
func newTraffic(t *testing.T, d *testcluster.Deployment) *traffic {
	t.Helper()
	w := &traffic{t: t, d: d, tool: newLedger(t)}
	for _, api := range d.API {
		if api != nil {
			w.nodes = append(w.nodes, client.New(api.URL, d.Key, client.WithTries(1), client.WithActor("user:bob")))
		}
	}
	_, err := client.New(d.API[0].URL, d.Key).PutTool(t.Context(), "write", w.tool.tool())
	must(t, err)
	return w
}

// start lets people work until [traffic.stop], each at most some twenty times
// a second: what is shown here is not how fast it is.
func (w *traffic) start(people int) *traffic {
	w.stops.Store(false)
	for p := range people {
		w.people.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for n := 0; !w.stops.Load(); n++ {
				w.one(p, fmt.Sprintf("p%d-%d-%d", p, n, time.Now().UnixNano()), n%4 != 3)
				<-tick.C
			}
		})
	}
	w.t.Cleanup(w.stop) // for a test that fails before it stops them
	return w
}

// stop ends the work, each piece of it answered.
func (w *traffic) stop() {
	w.stops.Store(true)
	w.people.Wait()
}

// one is a call from its registration to its acknowledged decision.
func (w *traffic) one(person int, topic string, approved bool) {
	turn := client.TurnRequest{MessageID: "m", Parts: []client.Part{client.ToolPart("write", "c", json.RawMessage(`{"n":1}`))}}
	registered, ok := until(w, person, func(ctx context.Context, node *client.Client) (client.TurnAnswer, error) {
		return node.RegisterTurn(ctx, topic, turn)
	})
	if !ok {
		return
	}
	call := registered.Turn.Calls[0]
	decision := client.Decision{Approved: approved, DecisionID: topic}
	if _, ok := until(w, person, func(ctx context.Context, node *client.Client) (client.DecisionAnswer, error) {
		return node.Decide(ctx, call.ApprovalID, decision)
	}); ok {
		w.mu.Lock()
		w.answered = append(w.answered, answered{call.ID, call.ApprovalID, decision.DecisionID, approved})
		w.mu.Unlock()
	}
}

// until asks one node after the other until it is answered.
func until[T any](w *traffic, person int, ask func(context.Context, *client.Client) (T, error)) (answer T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*testcluster.Deadline)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := person; ; n++ {
		begin := time.Now()
		one, end := context.WithTimeout(ctx, patience)
		answer, err := ask(one, w.nodes[n%len(w.nodes)])
		end()
		if w.saw(err, time.Since(begin)); err == nil {
			return answer, true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Errorf("never answered: %v", err)
			return answer, false
		}
	}
}

// saw judges how a try ended.
func (w *traffic) saw(err error, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowest = max(w.slowest, took)
	problem, is := errors.AsType[*client.Problem](err)
	switch {
	case err == nil:
	case is && problem.Status == http.StatusServiceUnavailable:
		w.refused++
		if problem.RetryAfter == 0 {
			w.t.Errorf("a 503 does not say when to come again: %s", problem.Raw)
		}
	case is:
		w.t.Errorf("answered with %v", err)
	case errors.Is(err, context.DeadlineExceeded):
		w.t.Errorf("no answer within %s: %v", took, err)
	default:
		w.cut++
	}
}

// count is how many decisions were acknowledged so far.
func (w *traffic) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answered)
}

// refusals is how many tries were answered with 503 so far.
func (w *traffic) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// goesOn waits until n more decisions are acknowledged.
func (w *traffic) goesOn(n int) {
	w.t.Helper()
	least := w.count() + n
	testcluster.Eventually(w.t, fmt.Sprintf("%d more decisions are acknowledged", n), func(context.Context) error {
		if got := w.count(); got < least {
			return fmt.Errorf("%d of %d", got, least)
		}
		return nil
	})
}

// isRefused waits until n more tries are answered with 503.
func (w *traffic) isRefused(n int) {
	w.t.Helper()
	least := w.refusals() + n
	testcluster.Eventually(w.t, "requests are refused with 503", func(context.Context) error {
		if got := w.refusals(); got < least {
			return fmt.Errorf("%d of %d", got, least)
		}
		return nil
	})
}
