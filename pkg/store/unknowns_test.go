package store

import (
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// next is a registration that follows a turn of its topic.
func next(topic, message string, calls ...NewCall) Registration {
	r := registration(topic, calls...)
	r.Message, r.WhileOpen, r.Content = model.MessageID(message), WhileOpenParallel, sum(topic+message)
	return r
}

// withInput is the call with another input.
func withInput(c NewCall, input string) NewCall {
	c.Input = []byte(input)
	c.Call.Digest = model.Digest(tenant, c.Call.ID, c.Call.Tool.Name, c.Call.Tool.Definition, c.Input)
	return c
}

// I4: running a call of unknown outcome again is a new call with a new card
// that points at the old one: what repeats it is asked about although policy
// allows it, before the outcome is known and after it is.
func TestI4WhatMayRepeatAnUnknownOutcomeIsAsked(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool, other := putTool(t, s, "delete_file", model.EffectUnsafe), putTool(t, s, "move_file", model.EffectUnsafe)
	first := unknown(t, s, "t", tool)
	elsewhere := withInput(allowed(tool, "x"), `{"path":"new.log"}`)
	out := register(t, s, next("t", "m2", allowed(tool, "a"), asking(tool, "b"), allowed(other, "c"), elsewhere))
	if c := out.Turn.Calls; c[0].Run != model.RunNone || c[0].State != model.CallApprovalRequested || c[2].Run != model.RunQueued || c[3].Run != model.RunQueued {
		t.Fatalf("runs: %q %q %q %q", c[0].Run, c[1].Run, c[2].Run, c[3].Run)
	}
	repeats := func(c *model.Call, run model.RunState, resolution model.ResolutionOutcome) {
		t.Helper()
		card, err := s.Card(t.Context(), tenant, c.Approval.ID)
		if err != nil || card.Earlier == nil || card.Earlier.Call != first.ID || card.Earlier.Run != run || card.Earlier.Resolution != resolution {
			t.Errorf("the card: %+v, %v", card.Earlier, err)
		}
		if call := reread(t, s, c.ID); call.Earlier == nil || call.Earlier.Call != first.ID {
			t.Errorf("the call: %+v", call.Earlier)
		}
	}
	repeats(out.Turn.Calls[0], model.RunUnknown, "")
	repeats(out.Turn.Calls[1], model.RunUnknown, "")
	if _, err := s.Resolve(t.Context(), tenant, first.ID, resolution(model.ResolvedDidNotHappen, "")); err != nil {
		t.Fatal(err)
	}
	repeats(out.Turn.Calls[0], model.RunFailed, model.ResolvedDidNotHappen)
	again := register(t, s, next("t", "m3", allowed(tool, "a"))).Turn.Calls[0]
	repeats(again, model.RunFailed, model.ResolvedDidNotHappen)
	if c := register(t, s, next("another topic", "m1", allowed(tool, "a"))).Turn.Calls[0]; c.Run != model.RunQueued {
		t.Errorf("in another topic it is %s, %s", c.State, c.Run)
	}
	requireInvariants(t, s, Scope{})
}

// What a person had changed is compared in both forms, and a turn that was
// opened live is asked about as any other.
func TestALiveTurnsRepetitionIsAskedToo(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	call := unknown(t, s, "t", tool)
	exec(t, s, `update calls set original_input = input, input = '{"path":"edited.log"}', digest = $2, edited = true where call_id = $1`, string(call.ID),
		model.Digest(tenant, call.ID, tool.Name, tool.Definition, []byte(`{"path":"edited.log"}`)))
	live := next("t", "m2")
	live.Live = time.Minute
	turn := register(t, s, live).Turn
	edited := withInput(allowed(tool, "b"), `{"path":"edited.log"}`)
	e := Ending{Turn: turn.ID, Topic: "t", Fence: turn.Live.Fence, Token: turn.Live.Token, Content: sum("end"),
		Parts: Parts{[]byte(`{"type":"step-start"}`), nil, nil}, Calls: []NewCall{allowed(tool, "a"), edited}, Expiry: time.Hour}
	e.Calls[0].Call.Part, e.Calls[1].Call.Part = 1, 2
	out, err := s.FinishLive(t.Context(), tenant, e)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range out.Turn.Calls {
		if again := reread(t, s, c.ID); c.State != model.CallApprovalRequested || again.Earlier == nil || again.Earlier.Call != call.ID {
			t.Errorf("%s: %s, %+v", c.ToolCallID, c.State, again.Earlier)
		}
	}
	requireInvariants(t, s, Scope{})
}

// What needs a person is listed by its run.
func TestUnknownOutcomesAreListed(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	call := unknown(t, s, "t", tool)
	started(t, s, "runs", tool)
	list, err := s.Calls(t.Context(), tenant, CallFilter{Run: model.RunUnknown, Limit: 10})
	if err != nil || len(list) != 1 || list[0].ID != call.ID {
		t.Errorf("%+v, %v", list, err)
	}
}
