package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const tenant = model.TenantID("acme")

// open gives a store on a fresh database with one tenant.
func open(t *testing.T) *Store {
	t.Helper()
	s := openAt(t, testservers.Database(t, Migrate))
	if err := s.EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	return s
}

// openAt gives another node's store on the same database.
func openAt(t *testing.T, url string) *Store {
	t.Helper()
	s, err := New(url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func sum(text string) []byte {
	h := sha256.Sum256([]byte(text))
	return h[:]
}

// putTool defines a tool and gives what a call keeps of it.
func putTool(t *testing.T, s *Store, name string, effect model.Effect) model.CallTool {
	t.Helper()
	d := model.ToolDefinition{Name: name, Effect: effect, Executor: model.ExecutorWorker, MaxAttempts: 3,
		Timeout: model.Duration(time.Second), KeyRetention: model.Duration(time.Hour),
		HTTP: &model.HTTPTarget{Method: "POST", URL: "http://tool.example"}}
	if _, err := s.PutTool(t.Context(), model.Tool{Tenant: tenant, Definition: d}, "test", "test"); err != nil {
		t.Fatal(err)
	}
	_, hash, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return model.CallTool{Name: name, Definition: hash, Effect: effect, Executor: model.ExecutorWorker, MaxAttempts: 3, KeyRetention: time.Hour,
		Timeout: time.Second}
}

// asking is a call about which a person is asked.
func asking(tool model.CallTool, toolCallID string) NewCall {
	c := newCall(tool, toolCallID)
	c.Call.State = model.CallApprovalRequested
	c.Call.Approval = &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalRequested, Rule: model.Requirement{Quorum: 1}}
	return c
}

// allowed is a call that policy lets run.
func allowed(tool model.CallTool, toolCallID string) NewCall {
	c := newCall(tool, toolCallID)
	c.Call.State, c.Call.AllowedBy = model.CallInputAvailable, "default"
	return c
}

func newCall(tool model.CallTool, toolCallID string) NewCall {
	id, input := model.NewCallID(), []byte(`{"path":"old.log"}`)
	return NewCall{Input: input, Call: model.Call{ID: id, ToolCallID: toolCallID, Tool: tool,
		Digest: model.Digest(tenant, id, tool.Name, tool.Definition, input)}}
}

// registration is a turn with calls in a topic of its own name.
func registration(topic string, calls ...NewCall) Registration {
	parts := Parts{[]byte(`{"type":"step-start"}`)}
	for i := range calls {
		calls[i].Call.Part = len(parts)
		parts = append(parts, nil)
	}
	return Registration{
		Tenant: tenant, Topic: model.TopicID(topic), Message: "msg_1", WhileOpen: WhileOpenBlock, Content: sum(topic + fmt.Sprint(len(calls))),
		Turn: model.Turn{Execution: model.ExecuteWhenDecided, RequestedBy: "user:alice",
			Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}},
		Parts: parts, Calls: calls, Expiry: time.Hour, Actor: "key:backend", Channel: "api",
	}
}

func register(t *testing.T, s *Store, r Registration) Registered {
	t.Helper()
	out, err := s.Register(t.Context(), r)
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	return out
}

func approver(name string) model.Principal {
	return model.Principal{Tenant: tenant, Key: "ops", Subject: "user:" + name, Roles: []model.Role{model.RoleApprover}}
}

func verdict(c *model.Call, approved bool, by string) model.Decision {
	return model.Decision{ID: model.NewToken(), Approval: c.Approval.ID, Approved: approved, By: approver(by), Channel: "api",
		Content: sum(fmt.Sprint(c.Approval.ID, approved, by))}
}

func claimOf(c *model.Call, token string) model.Claim {
	return model.Claim{Token: token, Worker: "w1", Lease: time.Minute, Digest: c.Digest}
}

func state(t *testing.T, s *Store, turn model.TurnID) model.TurnState {
	t.Helper()
	got, err := s.Turn(t.Context(), tenant, turn)
	if err != nil {
		t.Fatal(err)
	}
	return got.State()
}

func scalar[T any](t *testing.T, s *Store, query string, args ...any) T {
	t.Helper()
	var out T
	if err := s.pool.QueryRow(context.Background(), query, args...).Scan(&out); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return out
}

func exec(t *testing.T, s *Store, query string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
