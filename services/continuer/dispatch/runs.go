package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// dispatchRuns hints at queued runs: to the workers over JetStream, to a
// caller by its sink.
func (d *Dispatcher) dispatchRuns(ctx context.Context, runs []store.DueRun) {
	var hints []bus.RunHint
	var calls []store.DueRun
	steps := underWay{}
	for _, r := range runs {
		switch {
		case !d.marks.begin(runID(r)):
		case r.Executor == model.ExecutorCaller:
			calls = append(calls, r)
		default:
			hint := bus.RunHint{Tenant: r.Tenant, Call: r.Call, Fence: r.Fence, Publish: int64(r.Published)}
			hint.Traceparent, steps[runID(r)] = d.dispatch(ctx, r)
			hints = append(hints, hint)
		}
	}
	if len(hints) > 0 {
		acked, err := d.publishRuns(ctx, hints)
		for _, h := range acked {
			d.marks.hinted(h.Tenant, h.Call, h.Fence, h.Publish)
			steps.done(hintID(h.Call, h.Fence, h.Publish))
		}
		steps.fail(err)
		d.account(ctx, "run", viaJetStream, len(hints), len(acked), err)
		d.forget(runs)
	}
	d.tellCallers(ctx, calls)
}

// publishRuns gives those that the stream has.
func (d *Dispatcher) publishRuns(ctx context.Context, hints []bus.RunHint) ([]bus.RunHint, error) {
	if err := failpoint.Hit(ctx, failpoint.DispatchBeforePublish); err != nil {
		return nil, err
	}
	acked, err := d.bus.PublishRuns(ctx, hints)
	if lost := failpoint.Hit(ctx, failpoint.DispatchAfterPublish); lost != nil {
		return nil, lost
	}
	return acked, err
}

func runID(r store.DueRun) string { return hintID(r.Call, r.Fence, int64(r.Published)) }

// forget lets runs that are not marked be tried again.
func (d *Dispatcher) forget(runs []store.DueRun) {
	for _, r := range runs {
		d.marks.abandon(runID(r))
	}
}

// tellCallers tells backends that calls are theirs to run.
func (d *Dispatcher) tellCallers(ctx context.Context, calls []store.DueRun) {
	var messages []bus.ContinuationMessage
	byID, steps := map[string]store.DueRun{}, underWay{}
	for _, r := range calls {
		body := callReady(r)
		if r.Sink.Type == model.SinkWebhook {
			d.callByWebhook(ctx, r, body)
			continue
		}
		byID[runID(r)] = r
		m := bus.ContinuationMessage{Tenant: r.Tenant, Sink: r.Sink.Name, ID: runID(r), Body: body}
		m.Traceparent, steps[m.ID] = d.dispatch(ctx, r)
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return
	}
	acked, err := d.publish(ctx, messages)
	for _, m := range acked {
		r := byID[m.ID]
		d.marks.hinted(r.Tenant, r.Call, r.Fence, int64(r.Published))
		steps.done(m.ID)
	}
	steps.fail(err)
	d.account(ctx, "call", viaJetStream, len(messages), len(acked), err)
	d.forget(calls)
}

// callReady is what a caller's sink gets when a call is queued for it: ids
// only.
func callReady(r store.DueRun) []byte {
	body, _ := json.Marshal(event{Type: "call.ready", Timestamp: time.Now().UTC(), Data: callData{
		CallID: r.Call, Topic: r.Topic, Turn: r.Turn, MessageID: r.Message, ToolCallID: r.ToolCallID,
	}})
	return body
}

// event is the envelope of everything that a sink gets.
type event struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type callData struct {
	CallID     model.CallID    `json:"callId"`
	Topic      model.TopicID   `json:"topic"`
	Turn       model.TurnID    `json:"turn"`
	MessageID  model.MessageID `json:"messageId"`
	ToolCallID string          `json:"toolCallId"`
}
