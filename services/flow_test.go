package services

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// One call goes through the nine steps, over two nodes of each service as
// processes of their own.
func TestOneCallThroughTheNineSteps(t *testing.T) {
	t.Parallel()
	theNineSteps(t, deploy(t))
}

func theNineSteps(t *testing.T, d *deployment) {
	t.Helper()
	ctx := t.Context()
	tool := newToolServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"deleted": true, "size": 1E2}`) })
	must(t, second(d.Node(0).PutTool(ctx, "delete_file", tool.tool("unsafe"))))
	secret, err := d.Node(0).SigningSecret(ctx)
	must(t, err)
	chat := newBackend(t, secret.Secret)

	// 1 evaluate, 2 register
	registered, err := d.Node(0).RegisterTurn(ctx, "chat/42", client.TurnRequest{
		MessageID: "msg_1", RequestedBy: "user:alice", Sink: &client.Sink{Type: "webhook", URL: chat.URL},
		Parts: []client.Part{client.TextPart("I will clean up."), client.ToolPart("delete_file", "call_1", json.RawMessage(`{"path":"old.log"}`))},
	})
	must(t, err)
	if registered.Topic.Status != "awaiting-approval" || registered.Topic.Version != 1 || registered.Turn.State != "awaiting-approval" {
		t.Fatalf("registered: %+v", registered)
	}
	call := registered.Turn.Calls[0]

	// 3 announce: the other node's window sees the card
	events, stopEvents := context.WithCancel(ctx)
	defer stopEvents()
	seen := make(chan string, 64)
	go func() {
		for e, err := range d.Node(1).Events(events, "chat/42", 0) {
			if err != nil {
				return
			}
			if e.Status != nil {
				seen <- e.Status.Status
			}
		}
	}()
	expect(t, seen, "awaiting-approval")

	// 4 decide, on the other node
	decided, err := d.As(1, "user:bob").Decide(ctx, call.ApprovalID, client.Decision{Approved: true, Reason: "it is old"})
	must(t, err)
	if decided.Result != "applied" || decided.Topic.Status != "pending" || decided.Approval.Decision.DecidedBy != "user:bob" {
		t.Fatalf("decided: %+v", decided)
	}

	// 5 dispatch, 6 deliver, 7 claim and run, 8 finish
	testcluster.Eventually(t, "the call is run", func(ctx context.Context) error {
		c, err := d.Node(0).Call(ctx, call.ID)
		if err == nil && c.State != "output-available" {
			err = fmt.Errorf("it is %s, its run %s", c.State, c.Run)
		}
		return err
	})
	ran := tool.ran()
	if len(ran) != 1 || ran[0].body != `{"path":"old.log"}` || ran[0].key == "" || ran[0].call != call.ID || ran[0].attempt != "1" {
		t.Fatalf("the tool was called: %+v", ran)
	}

	// 9 continue: delivered, then accepted once
	select {
	case <-chat.arrived:
	case <-time.After(testcluster.Deadline):
		t.Fatal("no continuation was delivered")
	}
	got := chat.deliveries()[0]
	if got.Type != "continuation.ready" || got.Data.Turn != registered.Turn.ID || got.Data.MessageID != "msg_1" {
		t.Fatalf("delivered: %+v", got)
	}
	opened, err := d.Node(0).OpenTurn(ctx, "chat/42", client.OpenRequest{Continues: got.Data.ContinuationID})
	must(t, err)
	if _, err := d.Node(1).OpenTurn(ctx, "chat/42", client.OpenRequest{Continues: got.Data.ContinuationID}); !client.Is(err, "continuation-accepted") {
		t.Fatalf("a second acceptance: %v", err)
	}
	finished, err := d.Node(1).FinishTurn(ctx, "chat/42", opened.Turn.ID, client.FinishRequest{
		Fence: opened.Fence, Token: opened.Token, Parts: []client.Part{client.TextPart("Done.")}})
	must(t, err)
	if finished.Topic.Status != "done" || finished.Message.ID != "msg_1" {
		t.Fatalf("finished: %+v", finished)
	}
	expect(t, seen, "done")
	history, err := d.Node(1).Messages(ctx, "chat/42", client.Paging{}, client.MinVersion(finished.Topic.Version))
	must(t, err)
	requireHistory(t, history)
	requireOneTrace(t, ran[0].traceparent, got.traceparent)
}

// requireHistory: the output's bytes are as the tool sent them, and the
// answer is a second step of the same message.
func requireHistory(t *testing.T, history client.Page[client.Message]) {
	t.Helper()
	if len(history.Items) != 1 {
		t.Fatalf("history: %+v", history.Items)
	}
	var types, states []string
	var output json.RawMessage
	for _, raw := range history.Items[0].Parts {
		var p struct {
			Type, State string
			Output      json.RawMessage
		}
		must(t, json.Unmarshal(raw, &p))
		types = append(types, p.Type)
		if p.State != "" {
			states, output = append(states, p.State), p.Output
		}
	}
	if fmt.Sprint(types) != "[step-start text tool-delete_file step-start text]" || fmt.Sprint(states) != "[output-available]" {
		t.Fatalf("parts: %v, states %v", types, states)
	}
	if string(output) != `{"deleted": true, "size": 1E2}` {
		t.Fatalf("output: %s", output)
	}
}

// requireOneTrace: the tool and the continuation are of the trace that
// registered the turn.
func requireOneTrace(t *testing.T, tool, continuation string) {
	t.Helper()
	if len(tool) < 35 || len(continuation) < 35 || tool[:35] != continuation[:35] {
		t.Errorf("traces: the tool's is %q, the continuation's %q", tool, continuation)
	}
}

// I3, I8: workers and continuers die by kill -9 while forty calls are under
// way. Every call of an unsafe tool is run at most once, every turn that can
// go on does, and what cannot be known says so.
func TestI8NothingIsStrandedWhenProcessesDie(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	ctx := t.Context()
	var slow atomic.Bool
	tool := newToolServer(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, `"ok"`)
	})
	slow.Store(true)
	must(t, second(d.Node(0).PutTool(ctx, "delete_file", tool.tool("unsafe"))))
	const turns = 40
	var ids [turns]string
	var clients sync.WaitGroup
	for i := range turns {
		clients.Go(func() {
			out, err := d.Node(i%2).RegisterTurn(ctx, fmt.Sprintf("t%d", i), client.TurnRequest{MessageID: "m",
				Parts: []client.Part{client.ToolPart("delete_file", "c", json.RawMessage(`{"path":"x"}`))}})
			if err != nil {
				t.Errorf("register: %v", err)
				return
			}
			ids[i] = out.Turn.Calls[0].ID
			if _, err := d.As((i+1)%2, "user:bob").Decide(ctx, out.Turn.Calls[0].ApprovalID, client.Decision{Approved: true}); err != nil {
				t.Errorf("decide: %v", err)
			}
			if i == turns/2 {
				d.Workers[0].Kill()
				d.Continuers[0].Kill()
			}
		})
	}
	clients.Wait()
	d.Workers[0].Start()
	d.Continuers[0].Start()
	testcluster.Eventually(t, "every call is settled or unknown", func(ctx context.Context) error {
		for _, id := range ids {
			c, err := d.Node(0).Call(ctx, id)
			if err != nil {
				return err
			}
			if c.State != "output-available" && c.Run != "outcome-unknown" {
				return fmt.Errorf("call %s is %s, its run %s", id, c.State, c.Run)
			}
		}
		return nil
	})
	times := map[string]int{}
	for _, c := range tool.ran() {
		if times[c.call]++; times[c.call] > 1 {
			t.Errorf("call %s of an unsafe tool ran %d times (I4)", c.call, times[c.call])
		}
	}
	for i, id := range ids {
		c, err := d.Node(0).Call(ctx, id)
		must(t, err)
		turn, err := d.Node(0).Turn(ctx, c.Turn)
		must(t, err)
		if want := map[bool]string{true: "continuing", false: "needs-attention"}[c.State == "output-available"]; turn.State != want {
			t.Errorf("turn %d is %s, its call %s", i, turn.State, c.State)
		}
	}
}

// A decision commits while Redis and NATS are down, and everything catches up
// when they return (I3, I8).
func TestDecidingWithoutRedisAndNATS(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	ctx := t.Context()
	tool := newToolServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `1`) })
	must(t, second(d.Node(0).PutTool(ctx, "delete_file", tool.tool("unsafe"))))
	out, err := d.Node(0).RegisterTurn(ctx, "t", client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("delete_file", "c", json.RawMessage(`{"path":"x"}`))}})
	must(t, err)
	must(t, d.Redis.Kill())
	must(t, d.NATS.Close())
	decided, err := d.As(1, "user:bob").Decide(ctx, out.Turn.Calls[0].ApprovalID, client.Decision{Approved: true})
	must(t, err)
	if decided.Result != "applied" {
		t.Fatalf("decided: %s", decided.Result)
	}
	if topics, err := d.Node(0).Topic(ctx, "t"); err != nil || topics.Version < decided.Topic.Version {
		t.Fatalf("the topic without Redis: %+v, %v", topics, err)
	}
	// The workers look at the rows themselves.
	testcluster.Eventually(t, "the call is run without NATS", func(ctx context.Context) error {
		c, err := d.Node(0).Call(ctx, out.Turn.Calls[0].ID)
		if err == nil && c.State != "output-available" {
			err = fmt.Errorf("it is %s", c.State)
		}
		return err
	})
	must(t, d.NATS.Start(ctx))
	must(t, d.Redis.Start(ctx))
	if n := len(tool.ran()); n != 1 {
		t.Fatalf("the tool ran %d times", n)
	}
	testcluster.Eventually(t, "the projection is there again", func(ctx context.Context) error {
		list, err := d.Node(1).Topics(ctx, client.TopicFilter{IDs: []string{"t"}})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status != "pending") {
			err = fmt.Errorf("topics: %+v", list.Items)
		}
		return err
	})
}

func expect(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	timeout := time.After(testcluster.Deadline)
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("no window saw the status %s", want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }
