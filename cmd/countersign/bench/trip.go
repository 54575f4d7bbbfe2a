package bench

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// trip is one round trip with the times of its steps.
type trip struct {
	begun, registered, decided, started, continued time.Time
	done                                           chan struct{}
}

// trips finds a trip by what a step knows of it.
type trips struct {
	mu     sync.Mutex
	byTurn map[model.TurnID]*trip
	byCall map[model.CallID]*trip
}

func (t *trips) add(turn model.TurnID, call model.CallID, p *trip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byTurn[turn], t.byCall[call] = p, p
}

func (t *trips) remove(turn model.TurnID, call model.CallID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byTurn, turn)
	delete(t.byCall, call)
}

func (t *trips) started(call model.CallID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byCall[call]; p != nil {
		p.started = time.Now()
	}
}

func (t *trips) continued(d bus.ContinuationDelivery) {
	var message struct {
		Data struct {
			Turn model.TurnID `json:"turn"`
		} `json:"data"`
	}
	if json.Unmarshal(d.Body, &message) == nil {
		t.finish(message.Data.Turn)
	}
	d.Ack()
}

func (t *trips) finish(turn model.TurnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byTurn[turn]; p != nil && p.continued.IsZero() {
		p.continued = time.Now()
		close(p.done)
	}
}

var input = []byte(`{"path":"/var/log/app/2026-01-01.log","recursive":false,"reason":"older than ninety days"}`)

// goRound registers a turn with one call that asks, approves it, and waits
// for the continuation.
func (s *system) goRound(ctx context.Context) (*trip, error) {
	p := &trip{begun: time.Now(), done: make(chan struct{})}
	id := model.NewCallID()
	call := model.Call{ID: id, Part: 2, ToolCallID: "call_1", Tool: s.tool, State: model.CallApprovalRequested,
		Digest:   model.Digest(tenant, id, s.tool.Name, s.tool.Definition, input),
		Approval: &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalRequested, Rule: model.Requirement{Quorum: 1}}}
	out, err := s.api.Register(ctx, store.Registration{
		Tenant: tenant, Topic: model.TopicID(id), Message: "msg_1", WhileOpen: store.WhileOpenBlock, Content: sum(string(id)),
		Turn: model.Turn{Execution: model.ExecuteWhenDecided, RequestedBy: "user:alice",
			Sink: model.Sink{Type: model.SinkJetStream, Name: sinkName, AcceptWithin: 10 * time.Minute}},
		Parts:  store.Parts{[]byte(`{"type":"step-start"}`), []byte(`{"type":"text","text":"I will clean up."}`), nil},
		Calls:  []store.NewCall{{Call: call, Input: input}},
		Expiry: time.Hour, Actor: "key:bench", Channel: "bench",
	})
	if err != nil {
		return nil, err
	}
	p.registered = time.Now()
	s.trips.add(out.Turn.ID, id, p)
	defer s.trips.remove(out.Turn.ID, id)
	decision := model.Decision{ID: model.NewToken(), Approval: call.Approval.ID, Approved: true, Channel: "bench",
		By:      model.Principal{Tenant: tenant, Key: "bench", Subject: "user:bob", Roles: []model.Role{model.RoleApprover}},
		Content: sum("yes")}
	if _, err := s.api.Decide(ctx, tenant, decision); err != nil {
		return nil, err
	}
	p.decided = time.Now()
	select {
	case <-p.done:
		return p, nil
	case err := <-s.failures:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func sum(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return h[:]
}
