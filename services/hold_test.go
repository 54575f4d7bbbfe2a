package services

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Held calls: a live caller waits for an answer on any node.

// ask registers a turn with one call that is asked about, held by a live
// caller.
func (d *deployment) ask(topic, lease, onLapse string, sink *client.Sink) client.TurnCall {
	d.T.Helper()
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: "m", Sink: sink,
		Hold:  &client.Hold{Lease: lease, OnLapse: onLapse},
		Parts: []client.Part{client.ToolPart("held_tool", "c", []byte(`{"n": 1}`))}})
	must(d.T, err)
	return out.Turn.Calls[0]
}

// wait waits on a node for the answer to a card, from now on.
func (d *deployment) wait(node int, approval string) <-chan answered {
	d.T.Helper()
	out := make(chan answered, 1)
	before, err := testcluster.One[time.Time](d.T.Context(), d.Deployment, heldUntil, approval)
	must(d.T, err)
	go func() {
		once := client.New(d.API[node].URL, d.Key, client.WithTries(1))
		card, err := once.Approval(d.T.Context(), approval, client.Wait(50*time.Second))
		out <- answered{card, err, time.Now()}
	}()
	// Waiting renews the hold: now the node waits for a signal.
	testcluster.Eventually(d.T, "the caller waits", func(ctx context.Context) error {
		until, err := testcluster.One[time.Time](ctx, d.Deployment, heldUntil, approval)
		if err == nil && !until.After(before) {
			err = errors.New("its hold is not renewed")
		}
		return err
	})
	return out
}

const heldUntil = `select t.hold_until from turns t join approvals a using (tenant_id, turn_id) where a.approval_id = $1`

type answered struct {
	card client.Approval
	err  error
	at   time.Time
}

// holding is a deployment whose api nodes hear of changes by signals alone:
// nothing is compared with its rows for an hour.
func holding(t *testing.T) *deployment {
	t.Helper()
	d := servers(t)
	for i := range 2 {
		d.StartAPI(i, "COUNTERSIGN_API_SWEEP_INTERVAL=1h")
	}
	d.Ready()
	must(t, second(d.Node(0).PutTool(t.Context(), "held_tool", client.Tool{HTTP: &client.HTTPTool{URL: "http://127.0.0.1:1"}})))
	return d
}

// A caller on one node gets the decision made on another within one signal:
// the hold is renewed, and the rows read again, only every ten seconds.
func TestAHeldCallGetsItsDecisionWithinOneSignal(t *testing.T) {
	t.Parallel()
	d := holding(t)
	for i := range 10 {
		call := d.ask(fmt.Sprintf("t%d", i), "5m", "deny", nil)
		waiting := d.wait(1, call.ApprovalID)
		must(t, second(d.As(0, "user:bob").Decide(t.Context(), call.ApprovalID, client.Decision{Approved: i%2 == 0})))
		decided := time.Now()
		got := <-waiting
		if got.err != nil || got.card.Decision == nil || got.card.Decision.Approved != (i%2 == 0) {
			t.Fatalf("the caller got %+v, %v", got.card, got.err)
		}
		if late := got.at.Sub(decided); late > 5*time.Second {
			t.Errorf("the decision came after %s", late)
		}
	}
}

// I3: the node on which a caller waits goes away. The caller asks again, there
// or elsewhere, and gets what was decided meanwhile.
func TestI3AHeldCallReattachesAfterARestart(t *testing.T) {
	t.Parallel()
	d := holding(t)
	call := d.ask("told to end", "5m", "deny", nil)
	waiting := d.wait(1, call.ApprovalID)
	d.API[1].Signal(syscall.SIGTERM)
	if got := <-waiting; got.err != nil || got.card.State != "requested" {
		t.Errorf("a node that ends answers with the card as it is: %+v, %v", got.card, got.err)
	}
	if err := d.API[1].Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
	d.API[1].Start()
	d.API[1].Ready()
	waiting = d.wait(1, call.ApprovalID)
	d.API[1].Kill()
	if got := <-waiting; got.err == nil {
		t.Errorf("a node that was killed answers: %+v", got.card)
	}
	must(t, second(d.As(0, "user:bob").Decide(t.Context(), call.ApprovalID, client.Decision{Approved: false, Reason: "not now"})))
	d.API[1].Start()
	d.API[1].Ready()
	for node := range 2 {
		card, err := d.Node(node).Approval(t.Context(), call.ApprovalID, client.Wait(50*time.Second))
		if err != nil || card.State != "denied" || card.Decision.Reason != "not now" {
			t.Errorf("on node %d: %+v, %v", node, card, err)
		}
	}
}

// What a lapsed hold becomes: deny answers for people and lets the
// conversation go on by its sink, park leaves an ordinary turn. While the hold
// lasts nothing is delivered.
func TestALapsedHold(t *testing.T) {
	t.Parallel()
	d := holding(t)
	d.StartContinuer(0, "COUNTERSIGN_SWEEP_INTERVAL=100ms")
	d.StartWorker(0)
	d.Ready()
	to := newReceiver(t)
	sink := to.sink()

	denied := d.ask("deny", "1s", "deny", &sink)
	to.next(t)
	card, err := d.Node(1).Approval(t.Context(), denied.ApprovalID)
	if err != nil || card.State != "lapsed" {
		t.Errorf("the card: %+v, %v", card, err)
	}
	if _, err := d.As(1, "user:bob").Decide(t.Context(), denied.ApprovalID, client.Decision{Approved: true}); !client.Is(err, "approval-closed") {
		t.Errorf("a decision after the lapse: %v", err)
	}
	if c, err := d.Node(0).Call(t.Context(), denied.ID); err != nil || c.State != "output-denied" || c.Outcome != "lapsed" || len(c.Attempts) != 0 {
		t.Errorf("the call: %s, %v", c.Raw, err)
	}

	tool := d.allowed("held_tool", "unsafe", says(http.StatusOK, `1`))
	must(t, d.Node(0).DeletePolicy(t.Context(), "allow-held_tool"))
	parked := d.ask("park", "1s", "park", &sink)
	testcluster.Eventually(t, "the hold lapses", func(ctx context.Context) error { return d.notHeld(ctx, "park") })
	must(t, second(d.As(1, "user:bob").Decide(t.Context(), parked.ApprovalID, client.Decision{Approved: true})))
	to.next(t)
	if c := d.runIs(parked.ID, "succeeded"); len(tool.ran()) != 1 {
		t.Errorf("it ran %d times: %s", len(tool.ran()), c.Raw)
	}

	held := d.ask("held", "5m", "deny", &sink)
	decided, err := d.As(1, "user:bob").Decide(t.Context(), held.ApprovalID, client.Decision{Approved: false})
	must(t, err)
	if c := d.continuation(decided.Turn.ID, "ready"); !c.NextAt.IsZero() {
		t.Errorf("it is to be delivered while it is held: %+v", c)
	}
	d.Change(`update turns set hold_until = clock_timestamp() where turn_id = $1`, decided.Turn.ID)
	to.next(t)
	if got := to.received(); got[2].continues != decided.Turn.ID || len(got) != 3 {
		t.Errorf("delivered: %+v", got)
	}
}

// Lapse and decision race for the turn's lock, and whichever commits first
// stands: a decision that was acknowledged is never undone (I1, I3), one that
// came too late is told so, and its call has no effect (I6).
func TestI1LapseAndDecisionRace(t *testing.T) {
	t.Parallel()
	d := holding(t)
	d.StartContinuer(0, "COUNTERSIGN_SWEEP_INTERVAL=20ms")
	d.StartContinuer(1, "COUNTERSIGN_SWEEP_INTERVAL=20ms")
	d.Ready()
	const tries, people = 200, 8
	var mu sync.Mutex
	applied, lapsed := 0, 0
	next := make(chan int)
	var racing sync.WaitGroup
	for p := range people {
		racing.Go(func() {
			for i := range next {
				won, err := d.race(fmt.Sprintf("t%d", i), p%2)
				if err != nil {
					t.Errorf("try %d: %v", i, err)
				}
				mu.Lock()
				if won {
					applied++
				} else {
					lapsed++
				}
				mu.Unlock()
			}
		})
	}
	for i := range tries {
		next <- i
	}
	close(next)
	racing.Wait()
	t.Logf("%d decisions came first, %d lapses", applied, lapsed)
	if applied == 0 || lapsed == 0 {
		t.Errorf("no race: %d decisions came first, %d lapses", applied, lapsed)
	}
}

// race decides about when the hold runs out, and checks that the answer and
// the rows agree.
func (d *deployment) race(topic string, node int) (applied bool, err error) {
	ctx := d.T.Context()
	out, err := d.Node(node).RegisterTurn(ctx, topic, client.TurnRequest{MessageID: "m", Hold: &client.Hold{Lease: "5m", OnLapse: "deny"},
		Parts: []client.Part{client.ToolPart("held_tool", "c", []byte(`{}`))}})
	if err != nil {
		return false, err
	}
	call := out.Turn.Calls[0]
	if _, err := d.Rows().ExecContext(ctx, `update turns set hold_until = clock_timestamp() + $2 * interval '1 millisecond' where turn_id = $1`,
		out.Turn.ID, rand.IntN(25)); err != nil {
		return false, err
	}
	_, err = d.As(1-node, "user:bob").Decide(ctx, call.ApprovalID, client.Decision{Approved: true})
	if err != nil && !client.Is(err, "approval-closed") {
		return false, err
	}
	applied = err == nil
	// A lapse that came second has done what it does, too.
	if err := cluster.Poll(ctx, func(ctx context.Context) error { return d.notHeld(ctx, topic) }); err != nil {
		return applied, err
	}
	return applied, d.agrees(call.ID, applied)
}

// notHeld tells whether the hold of a topic's turn has lapsed.
func (d *deployment) notHeld(ctx context.Context, topic string) error {
	held, err := testcluster.One[bool](ctx, d.Deployment, `select hold_until is not null from turns where topic_id = $1`, topic)
	if err == nil && held {
		err = errors.New("it is held")
	}
	return err
}

// agrees checks the rows of a call against what its decider was told.
func (d *deployment) agrees(call string, applied bool) error {
	var approval, state, outcome, run string
	var fence, continuations int
	err := d.Rows().QueryRowContext(d.T.Context(), `
		select a.state, c.state, c.outcome, c.run, c.fence, (select count(*) from continuations k where k.turn_id = c.turn_id)
		  from calls c join approvals a using (tenant_id, call_id) where c.call_id = $1`, call).
		Scan(&approval, &state, &outcome, &run, &fence, &continuations)
	if err != nil {
		return err
	}
	got := fmt.Sprintf("%s %s %q %q fence %d, %d continuations", approval, state, outcome, run, fence, continuations)
	want := `lapsed output-denied "lapsed" "" fence 0, 1 continuations`
	if applied {
		want = `approved approval-responded "" "queued" fence 0, 0 continuations`
	}
	if got != want {
		return fmt.Errorf("applied %v, and the rows are %s; want %s", applied, got, want)
	}
	return nil
}
