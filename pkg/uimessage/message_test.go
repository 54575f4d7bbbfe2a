package uimessage

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// part is one line of the table: a call as its row stands, and the part that
// people and the SDK see of it.
type part struct {
	name  string
	call  model.Call
	ended model.TurnState
	more  store.MessageCall // Dynamic, Extra, Output
	want  string
}

const (
	head     = `{"type":"tool-delete_file","toolCallId":"call_1",`
	input    = `"input":{"path": "old.log",  "n": 1.0},`
	metadata = `"toolMetadata":{"countersign":{"call":"c-1","digest":"ab01"`
)

func asked(state model.ApprovalState, reason, decision string) *model.Approval {
	return &model.Approval{ID: "a-1", State: state, Reason: reason, DecisionID: decision}
}

// parts holds every way in which a call can stand: the table of how each
// outcome looks as a part.
var parts = []part{
	{name: "input is streaming", call: model.Call{State: model.CallInputStreaming},
		want: head + `"state":"input-streaming",` + input + metadata + `}}}`},
	{name: "allowed and queued", call: model.Call{State: model.CallInputAvailable, AllowedBy: "default", Run: model.RunQueued},
		want: head + `"state":"input-available",` + input + metadata + `}}}`},
	{name: "allowed and run", call: model.Call{State: model.CallOutputAvailable, AllowedBy: "default", Run: model.RunSucceeded, Fence: 1},
		more: store.MessageCall{Output: json.RawMessage(`{"b":2,"a":[1, 2]}`)},
		want: head + `"state":"output-available",` + input + `"output":{"b":2,"a":[1, 2]},` + metadata + `,"attempts":1}}}`},
	{name: "allowed, run, answered nothing", call: model.Call{State: model.CallOutputAvailable, AllowedBy: "default", Fence: 2},
		want: head + `"state":"output-available",` + input + `"output":null,` + metadata + `,"attempts":2}}}`},
	{name: "allowed, then stopped", call: model.Call{State: model.CallOutputError, AllowedBy: "default", Outcome: model.OutcomeStopped,
		ErrorText: "The tool is gone. It did not run."},
		want: head + `"state":"output-error",` + input + `"errorText":"The tool is gone. It did not run.",` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"stopped","digest":"ab01"}}}`},
	{name: "asked", call: model.Call{State: model.CallApprovalRequested, Approval: asked(model.ApprovalRequested, "", "")},
		want: head + `"state":"approval-requested",` + input + `"approval":{"id":"a-1"},` + metadata + `}}}`},
	{name: "approved", call: model.Call{State: model.CallApprovalResponded, Approval: asked(model.ApprovalApproved, "", "d")},
		want: head + `"state":"approval-responded",` + input + `"approval":{"id":"a-1","approved":true},` + metadata + `}}}`},
	{name: "approved with a reason and an edit", call: model.Call{State: model.CallApprovalResponded, Edited: true,
		Approval: asked(model.ApprovalApproved, "fine <b>", "d")},
		want: head + `"state":"approval-responded",` + input + `"approval":{"id":"a-1","approved":true,"reason":"fine <b>"},` +
			metadata + `,"edited":true}}}`},
	{name: "approved and run", call: model.Call{State: model.CallOutputAvailable, Fence: 1, Approval: asked(model.ApprovalApproved, "ok", "d")},
		more: store.MessageCall{Output: json.RawMessage(`"gone"`)},
		want: head + `"state":"output-available",` + input + `"output":"gone","approval":{"id":"a-1","approved":true,"reason":"ok"},` +
			metadata + `,"attempts":1}}}`},
	{name: "approved, the tool said no", call: model.Call{State: model.CallOutputError, ErrorText: "EPERM", Fence: 1,
		Approval: asked(model.ApprovalApproved, "ok", "d")},
		want: head + `"state":"output-error",` + input + `"errorText":"EPERM","approval":{"id":"a-1","approved":true,"reason":"ok"},` +
			metadata + `,"attempts":1}}}`},
	{name: "approved, then stopped", call: model.Call{State: model.CallOutputError, ErrorText: "halted", Outcome: model.OutcomeStopped,
		Approval: asked(model.ApprovalApproved, "", "d")},
		want: head + `"state":"output-error",` + input + `"errorText":"halted","approval":{"id":"a-1","approved":true},` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"stopped","digest":"ab01"}}}`},
	{name: "denied by a person", call: model.Call{State: model.CallOutputDenied, Approval: asked(model.ApprovalDenied, "no!", "d")},
		want: head + `"state":"output-denied",` + input + `"approval":{"id":"a-1","approved":false,"reason":"no!"},` + metadata + `}}}`},
	{name: "denied without a reason", call: model.Call{State: model.CallOutputDenied, Approval: asked(model.ApprovalDenied, "", "d")},
		want: head + `"state":"output-denied",` + input + `"approval":{"id":"a-1","approved":false},` + metadata + `}}}`},
	{name: "denied by policy", call: model.Call{State: model.CallOutputDenied, Approval: asked(model.ApprovalDenied, "Policy x denies this tool.", "")},
		want: head + `"state":"output-denied",` + input +
			`"approval":{"id":"a-1","approved":false,"reason":"Policy x denies this tool.","isAutomatic":true},` + metadata + `}}}`},
	closed(model.ApprovalExpired, model.OutcomeExpired, model.TextExpired),
	closed(model.ApprovalLapsed, model.OutcomeLapsed, model.TextLapsed),
	closed(model.ApprovalCancelled, model.OutcomeCancelled, model.TextCancelled),
	closed(model.ApprovalSuperseded, model.OutcomeSuperseded, model.TextSuperseded),
	{name: "the input does not fit", call: model.Call{State: model.CallOutputError, ErrorText: "/path: must be a string"},
		want: head + `"state":"output-error",` + input + `"errorText":"/path: must be a string",` + metadata + `}}}`},
	{name: "outcome unknown", call: model.Call{State: model.CallApprovalResponded, Run: model.RunUnknown, Outcome: model.OutcomeUnknown, Fence: 1,
		ErrorText: "The worker went away.", Approval: asked(model.ApprovalApproved, "", "d")},
		want: head + `"state":"approval-responded",` + input + `"approval":{"id":"a-1","approved":true},` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"unknown","digest":"ab01","attempts":1}}}`},
	{name: "outcome unknown in an ended turn", ended: model.TurnAborted,
		call: model.Call{State: model.CallApprovalResponded, Run: model.RunUnknown, Outcome: model.OutcomeUnknown, Fence: 1,
			Approval: asked(model.ApprovalApproved, "", "d")},
		want: head + `"state":"output-error",` + input + `"errorText":"outcome not known yet","approval":{"id":"a-1","approved":true},` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"unknown","digest":"ab01","attempts":1}}}`},
	{name: "allowed, outcome unknown in an ended turn", ended: model.TurnError,
		call: model.Call{State: model.CallInputAvailable, AllowedBy: "default", Run: model.RunUnknown, Outcome: model.OutcomeUnknown, Fence: 1},
		want: head + `"state":"output-error",` + input + `"errorText":"outcome not known yet",` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"unknown","digest":"ab01","attempts":1}}}`},
	{name: "unknown, and it happened", call: model.Call{State: model.CallOutputAvailable, Run: model.RunSucceeded, Fence: 1,
		Approval: asked(model.ApprovalApproved, "", "d"), Resolution: &model.Resolved{Outcome: model.ResolvedHappened}},
		more: store.MessageCall{Output: json.RawMessage(`{"text":"A person looked."}`)},
		want: head + `"state":"output-available",` + input + `"output":{"text":"A person looked."},"approval":{"id":"a-1","approved":true},` +
			metadata + `,"attempts":1,"resolution":"happened"}}}`},
	{name: "unknown, and it did not happen", call: model.Call{State: model.CallOutputError, AllowedBy: "default", Run: model.RunFailed, Fence: 1,
		ErrorText: model.TextDidNotHappen, Resolution: &model.Resolved{Outcome: model.ResolvedDidNotHappen}},
		want: head + `"state":"output-error",` + input + `"errorText":"` + model.TextDidNotHappen + `",` +
			metadata + `,"attempts":1,"resolution":"did-not-happen"}}}`},
	{name: "unknown, and nobody can find out", call: model.Call{State: model.CallOutputError, AllowedBy: "default", Run: model.RunClosed, Fence: 1,
		Outcome: model.OutcomeUnknown, ErrorText: model.TextClosed, Resolution: &model.Resolved{Outcome: model.ResolvedClosed}},
		want: head + `"state":"output-error",` + input + `"errorText":"` + model.TextClosed + `",` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"unknown","digest":"ab01","attempts":1,"resolution":"closed"}}}`},
	{name: "still running in an ended turn", ended: model.TurnAborted,
		call: model.Call{State: model.CallInputAvailable, AllowedBy: "default", Run: model.RunStarted, Fence: 1},
		want: head + `"state":"input-available",` + input + metadata + `,"attempts":1}}}`},
	{name: "dynamic", call: model.Call{State: model.CallApprovalRequested, Approval: asked(model.ApprovalRequested, "", "")},
		more: store.MessageCall{Dynamic: true},
		want: `{"type":"dynamic-tool","toolName":"delete_file","toolCallId":"call_1","state":"approval-requested",` + input +
			`"approval":{"id":"a-1"},` + metadata + `}}}`},
	{name: "the caller's own fields", call: model.Call{State: model.CallInputAvailable},
		more: store.MessageCall{Extra: json.RawMessage(`{"toolMetadata":{"x":[1,  2],"countersign":{"call":"forged"}},"title":"Delete",
			"callProviderMetadata":{"p":{"sig":"s"}},"approval":{"id":"forged"},"output":1,"state":"output-available","preliminary":true}`)},
		want: head + `"state":"input-available",` + input + `"callProviderMetadata":{"p":{"sig":"s"}},"title":"Delete",` +
			`"toolMetadata":{"x":[1,  2],"countersign":{"call":"c-1","digest":"ab01"}}}`},
}

// closed is the line of a card that something other than a verdict closed.
func closed(state model.ApprovalState, outcome model.Outcome, text string) part {
	return part{name: string(outcome), call: model.Call{State: model.CallOutputDenied, Outcome: outcome, Approval: asked(state, text, "")},
		want: head + `"state":"output-denied",` + input + `"approval":{"id":"a-1","approved":false,"reason":"` + text + `"},` +
			`"toolMetadata":{"countersign":{"call":"c-1","outcome":"` + string(outcome) + `","digest":"ab01"}}}`}
}

// message puts the line's call into an assistant message.
func (p part) message() store.Message {
	c, m := p.call, p.more
	c.ID, c.ToolCallID, c.Tool.Name, c.Digest, c.Part = "c-1", "call_1", "delete_file", []byte{0xab, 1}, 1
	m.Call, m.Input = &c, json.RawMessage(`{"path": "old.log",  "n": 1.0}`)
	return store.Message{ID: "msg_1", Role: "assistant", Turns: []store.MessageTurn{{
		Turn:  &model.Turn{Ended: p.ended},
		Parts: store.Parts{json.RawMessage(`{"type":"step-start"}`), nil},
		Calls: []store.MessageCall{m},
	}}}
}

func TestEveryOutcomeHasItsPart(t *testing.T) {
	t.Parallel()
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			want := `{"id":"msg_1","role":"assistant","parts":[{"type":"step-start"},` + p.want + `]}`
			if diff := cmp.Diff(want, string(Message(p.message()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTurnsFollowEachOtherInOneMessage(t *testing.T) {
	t.Parallel()
	text := func(s string) json.RawMessage { return json.RawMessage(`{"type":"text", "text":"` + s + `"}`) }
	got := Message(store.Message{ID: "m", Role: "assistant", Metadata: json.RawMessage(`{"k": 1}`), Turns: []store.MessageTurn{
		{Turn: &model.Turn{}, Parts: store.Parts{text("one"), text("two")}},
		{Turn: &model.Turn{}},
		{Turn: &model.Turn{}, Parts: store.Parts{text("three")}},
	}})
	want := `{"id":"m","role":"assistant","metadata":{"k": 1},"parts":[` +
		`{"type":"text", "text":"one"},{"type":"text", "text":"two"},{"type":"text", "text":"three"}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestAPersonsMessageIsItsBytes(t *testing.T) {
	t.Parallel()
	got := Message(store.Message{ID: `m"1`, Role: "user", Parts: json.RawMessage(`[ {"type":"text","text":"a\u0000b"} ]`)})
	want := `{"id":"m\"1","role":"user","parts":[ {"type":"text","text":"a\u0000b"} ]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestExtraFieldsMustHaveTheSDKsTypes(t *testing.T) {
	t.Parallel()
	for extra, fits := range map[string]bool{
		``:                                      true,
		`{"title":"x","anything":null}`:         true,
		`{"title":5}`:                           false,
		`{"title":null}`:                        false,
		`{"providerExecuted":"yes"}`:            false,
		`{"toolMetadata":{"a":null}}`:           true,
		`{"toolMetadata":[]}`:                   false,
		`{"callProviderMetadata":{"p":{}}}`:     true,
		`{"callProviderMetadata":{"p":1}}`:      false,
		`{"resultProviderMetadata":{"p":null}}`: false,
	} {
		if err := CheckExtra(json.RawMessage(extra)); (err == nil) != fits {
			t.Errorf("%s: %v", extra, err)
		}
	}
}
