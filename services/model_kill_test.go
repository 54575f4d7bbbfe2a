package services

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// cleaner is a model that deletes two files in one step, as far as they are
// not deleted yet, and then says so. It is a function of the prompt alone.
func cleaner(topic string) scripted.Model {
	return func(r scripted.Request) scripted.Answer {
		results := 0
		for _, m := range r.Messages {
			if m.Role == "tool" {
				results++
			}
		}
		var calls [][]scripted.Event
		for i := results; i < 2; i++ {
			input, _ := json.Marshal(map[string]string{"path": fmt.Sprintf("%s/%d", topic, i)})
			calls = append(calls, scripted.Call(i-results, fmt.Sprintf("c%d", i), "delete_file", string(input)))
		}
		if len(calls) == 0 {
			return speech("Both are gone.")
		}
		return scripted.Stream(append(append([][]scripted.Event{scripted.Say("I delete them.")}, calls...), scripted.End("tool_calls"))...)
	}
}

// A worker dies by SIGKILL while it streams, at every chunk of an answer: each
// conversation ends, with one assistant message, and each call ran once. One
// process carries all of them, each held at another chunk.
func TestI2TheModelLoopsWorkerDiesAtEveryChunk(t *testing.T) {
	t.Parallel()
	m := &models{of: map[string]scripted.Model{}, seen: map[string]int{}}
	p := newProvider(t, m.answer)
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0, p.env...)
	d.Ready()
	tool := newToolServer(t, says(200, `"gone"`))
	must(t, second(d.Node(0).PutTool(t.Context(), "delete_file", tool.tool("unsafe"))))

	var held sync.WaitGroup
	var chats []*chat
	whole := cleaner("x")(scripted.Request{}).Events
	for n := range whole {
		c := &chat{d, fmt.Sprintf("dies-at-%02d", n), p, m, tool}
		chats = append(chats, c)
		held.Add(1)
		c.model(func(r scripted.Request) scripted.Answer {
			a := cleaner(c.topic)(r)
			if r.N == 0 {
				a.Events[n].Before = func(ctx context.Context) {
					held.Done()
					<-ctx.Done() // until the worker is dead
				}
			}
			return a
		})
		c.say("Clean up")
	}
	window := d.window(t.Context(), 0, chats[0].topic, "7")
	held.Wait()
	d.Workers[0].Kill()
	d.loseStreams()
	d.Workers[0].Start()

	d.approveAll(chats)
	for _, c := range chats {
		parts := c.parts()
		c.has(parts, "Both are gone.")
		if calls := strings.Count(parts, `"type":"tool-delete_file"`); calls != 2 || c.ran() != 2 {
			t.Errorf("%s: %d calls, which ran %d times:\n%s", c.topic, calls, c.ran(), parts)
		}
	}
	if window != nil {
		last := ""
		for line := range window {
			last = line
		}
		if last != "[DONE]" {
			t.Errorf("the window that was open all the time ended with %s", last)
		}
	}
	d.breaksNothing()
}

// loseStreams lets the lease of every live turn run out.
func (d *deployment) loseStreams() {
	d.T.Helper()
	live, err := testcluster.One[string](d.T.Context(), d.Deployment,
		`select coalesce(string_agg(turn_id::text, ' '), '') from turns where live_until is not null`)
	must(d.T, err)
	if live == "" {
		d.T.Error("nothing was live when the worker died")
	}
	for turn := range strings.FieldsSeq(live) {
		d.Change(`update turns set live_until = clock_timestamp() where turn_id = $1`, turn)
	}
}

// approveAll answers every card with yes until the conversations are done.
func (d *deployment) approveAll(chats []*chat) {
	d.T.Helper()
	testcluster.Within(d.T, 2*time.Minute, "every conversation ends", func(ctx context.Context) error {
		open, err := d.Node(0).Approvals(ctx, client.ApprovalFilter{State: "requested"})
		if err != nil {
			return err
		}
		for _, a := range open.Items {
			if _, err := d.As(0, "user:bob").Decide(ctx, a.ID, client.Decision{Approved: true}); err != nil {
				return err
			}
		}
		for _, c := range chats {
			topic, err := d.Node(0).Topic(ctx, c.topic)
			if err == nil && topic.Status != "done" {
				err = fmt.Errorf("%s is %s", c.topic, topic.Status)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
