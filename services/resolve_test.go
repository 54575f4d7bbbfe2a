package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// outlive lets the time pass in which the attempt of an unknown outcome may be
// alive.
func (d *deployment) outlive(call string) {
	d.T.Helper()
	d.Change(`update calls set lease_until = lease_until - interval '1 hour' where call_id = $1 and run = 'outcome-unknown'`, call)
}

// I4, fault 16: a worker dies by kill -9 after an unsafe tool did its work and
// before it answered. Nobody runs it again, and nobody may say what became of
// it while it may be alive; then a person does, and the conversation goes on,
// once. A repetition of the call is asked about, although policy allows it.
func TestI4AWorkerDiesAfterTheEffect(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	chat := newBackend(t, d.secret())
	transfer := d.allowed("transfer", "unsafe", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	repeated := client.ToolPart("transfer", "c", json.RawMessage(`{"n":1}`))
	out, err := d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{MessageID: "m", Parts: []client.Part{repeated},
		Sink: &client.Sink{Type: "webhook", URL: chat.URL}})
	must(t, err)
	call := out.Turn.Calls[0].ID
	testcluster.Eventually(t, "it took effect", called(transfer, 1))
	d.Workers[0].Kill()
	d.StartWorker(1)
	d.Workers[1].Ready()

	c := d.runIs(call, "outcome-unknown")
	d.status("t", "awaiting-approval")
	if turn, err := d.Node(0).Turn(t.Context(), c.Turn); err != nil || turn.State != "needs-attention" || len(chat.deliveries()) != 0 {
		t.Errorf("the turn is %s, %v; %d deliveries", turn.State, err, len(chat.deliveries()))
	}
	happened := client.Resolution{Outcome: "happened", Output: json.RawMessage(`{"id":881}`), Evidence: "transfer 881 is on the statement"}
	_, err = d.As(0, "user:bob").ResolveCall(t.Context(), call, happened)
	if p := problemIn(t, err, "attempt-may-be-alive"); p.RetryAfter <= 0 || !c.ResolvableAt.After(c.Attempts[0].FinishedAt) {
		t.Errorf("refused until %s, Retry-After %s: %s", c.ResolvableAt, p.RetryAfter, c.Raw)
	}
	d.outlive(call)
	for _, result := range []string{"applied", "already-applied"} {
		got, err := d.As(0, "user:bob").ResolveCall(t.Context(), call, happened)
		if err != nil || got.Result != result || got.Call.Run != "succeeded" || got.Call.Resolution.ResolvedBy != "user:bob" {
			t.Fatalf("%s: %s, %v", result, got.Raw, err)
		}
	}
	d.continuation(c.Turn, "dispatched")
	if got, _ := d.output("t"); string(got) != `{"id":881}` {
		t.Errorf("the model is told %s", got)
	}

	next, err := d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{Continues: c.Turn, Parts: []client.Part{
		client.ToolPart("transfer", "again", json.RawMessage(`{"n":1}`))}})
	must(t, err)
	_, err = d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{Continues: c.Turn, Parts: []client.Part{client.TextPart("Twice?")}})
	problemIn(t, err, "turn-conflict")
	card, err := d.Node(0).Approval(t.Context(), next.Turn.Calls[0].ApprovalID)
	must(t, err)
	if card.State != "requested" || card.Repeats == nil || card.Repeats.Call != call || card.Repeats.Resolution != "happened" {
		t.Errorf("the repetition's card: %s, %+v", card.State, card.Repeats)
	}
	if ran, told := len(transfer.ran()), len(chat.deliveries()); ran != 1 || told != 1 {
		t.Errorf("it ran %d times, and the chat backend was told %d times", ran, told)
	}
}

// I4, fault 19: a worker is stopped in the middle of a run of an unsafe tool;
// a person closes the call; then the worker goes on and has the tool's answer.
// It is refused, which can be seen on the attempt, and changes nothing.
func TestI4AResultAfterTheResolutionIsRefused(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	answer := make(chan struct{})
	transfer := d.allowed("transfer", "unsafe", waits(answer, `"moved"`))
	call := d.start("t", "transfer")[0].ID
	testcluster.Eventually(t, "it runs", called(transfer, 1))
	d.Workers[0].Signal(syscall.SIGSTOP)
	c := d.runIs(call, "outcome-unknown")
	d.outlive(call)
	must(t, second(d.As(0, "user:bob").ResolveCall(t.Context(), call, client.Resolution{Outcome: "closed"})))
	d.continuation(c.Turn, "ready")
	close(answer)
	d.Workers[0].Signal(syscall.SIGCONT)
	testcluster.Eventually(t, "the late result is refused", func(ctx context.Context) error {
		c, err := d.Node(0).Call(ctx, call)
		if err == nil && c.Attempts[0].Outcome != "refused" {
			err = fmt.Errorf("its attempt: %+v", c.Attempts)
		}
		return err
	})
	c = d.runIs(call, "closed")
	if _, text := d.output("t"); c.State != "output-error" || !strings.Contains(text, "not known whether the call took effect") || c.Resolution.Outcome != "closed" {
		t.Errorf("%q: %s", text, c.Raw)
	}
	if !strings.Contains(c.Attempts[0].Detail, "succeeded") {
		t.Errorf("the attempt says %q", c.Attempts[0].Detail)
	}
	// The worker is well.
	d.runIs(d.start("later", "transfer")[0].ID, "succeeded")
}

// problemIn is the problem that an error must be.
func problemIn(t *testing.T, err error, name string) *client.Problem {
	t.Helper()
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Name() != name {
		t.Fatalf("%v, want %s", err, name)
	}
	return p
}
