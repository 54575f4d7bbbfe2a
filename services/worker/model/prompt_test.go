package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

const textPart = `{"type":"text","text":"I will."}`

// said is a committed turn with words and calls.
func said(place int, calls ...store.MessageCall) store.MessageTurn {
	t := store.MessageTurn{
		Turn:  &model.Turn{ID: model.NewTurnID(), Message: "m", Step: place},
		Parts: store.Parts{json.RawMessage(`{"type":"step-start"}`), json.RawMessage(textPart)},
	}
	for _, c := range calls {
		c.Part = len(t.Parts)
		t.Parts = append(t.Parts, nil)
		t.Calls = append(t.Calls, c)
		t.Turn.Calls = append(t.Turn.Calls, c.Call)
	}
	return t
}

func made(id string, state model.CallState, change func(*store.MessageCall)) store.MessageCall {
	c := store.MessageCall{Call: &model.Call{ID: model.NewCallID(), ToolCallID: id, Tool: model.CallTool{Name: "files.delete"}, State: state},
		Input: json.RawMessage(`{"path": "x"}`)}
	if change != nil {
		change(&c)
	}
	return c
}

func denied(reason string) func(*store.MessageCall) {
	return func(c *store.MessageCall) {
		c.Approval = &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalDenied, Reason: reason, DecisionID: "d"}
	}
}

func person(id, parts string) store.Message {
	return store.Message{ID: model.MessageID(id), Role: "user", Parts: json.RawMessage(parts)}
}

func assistant(id string, turns ...store.MessageTurn) store.Message {
	for i := range turns {
		turns[i].Message = model.MessageID(id)
	}
	return store.Message{ID: model.MessageID(id), Role: "assistant", Turns: turns}
}

// ask is the prompt of a turn that is live as the next step of message m.
func ask(t *testing.T, place int, notes []strictjson.Raw, messages ...store.Message) string {
	t.Helper()
	live := &model.Turn{ID: "live", Message: "m", Step: place, Streaming: true}
	out, _, err := prompt("Be brief.", messages, live, notes)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range out {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(fields) // with sorted names
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	return strings.Join(lines, "\n")
}

// Every outcome of a call is what the AI SDK makes of it for a provider, and
// stands right behind the calls of its step.
func TestEachCallIsFollowedByItsResult(t *testing.T) {
	t.Parallel()
	first := said(0,
		made("c1", model.CallOutputAvailable, func(c *store.MessageCall) { c.Output = json.RawMessage(`"gone"`) }),
		made("c2", model.CallOutputAvailable, func(c *store.MessageCall) { c.Output = json.RawMessage(`{"n": 1.0}`) }),
		made("c3", model.CallOutputDenied, denied("")),
		made("c4", model.CallOutputDenied, denied("Not today.")),
		made("c5", model.CallOutputError, func(c *store.MessageCall) { c.ErrorText, c.Input = "It broke.", json.RawMessage(`"{bad"`) }),
	)
	note := strictjson.Raw(`{"type":"data-countersign-note","data":{"toolCallId":"c1","text":"A person changed it."}}`)
	got := ask(t, 1, []strictjson.Raw{note}, person("u", `[{"type":"text","text":"Clean up"}]`), assistant("m", first))
	name := functionName("files.delete")
	call := func(id, arguments string) string {
		quoted, _ := json.Marshal(arguments)
		return `{"function":{"arguments":` + string(quoted) + `,"name":"` + name + `"},"id":"` + id + `","type":"function"}`
	}
	x := `{"path": "x"}`
	want := strings.Join([]string{
		`{"content":"Be brief.","role":"system"}`,
		`{"content":"Clean up","role":"user"}`,
		`{"content":"I will.","role":"assistant","tool_calls":[` + strings.Join([]string{
			call("c1", x), call("c2", x), call("c3", x), call("c4", x), call("c5", `{"input":"{bad"}`)}, ",") + `]}`,
		`{"content":"gone","role":"tool","tool_call_id":"c1"}`,
		`{"content":"{\"n\": 1.0}","role":"tool","tool_call_id":"c2"}`,
		`{"content":"Tool call execution denied.","role":"tool","tool_call_id":"c3"}`,
		`{"content":"Not today.","role":"tool","tool_call_id":"c4"}`,
		`{"content":"It broke.","role":"tool","tool_call_id":"c5"}`,
		`{"content":"[A note of the system, not of the user: A person changed it.]","role":"user"}`,
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the prompt:\n%s", diff)
	}
}

// Nothing is asked while a call of the message has no result, whatever it
// waits for.
func TestACallWithoutAResultIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	for _, state := range []model.CallState{
		model.CallInputStreaming, model.CallInputAvailable, model.CallApprovalRequested, model.CallApprovalResponded,
	} {
		done := made("c1", model.CallOutputAvailable, func(c *store.MessageCall) { c.Output = json.RawMessage(`1`) })
		live := &model.Turn{ID: "live", Message: "m", Step: 1}
		_, _, err := prompt("", []store.Message{assistant("m", said(0, done, made("c2", state, nil)))}, live, nil)
		var failed *Failure
		if !errors.As(err, &failed) || !failed.ForGood {
			t.Errorf("%s: %v", state, err)
		}
	}
}

// What is open elsewhere in the topic is left out with its call; what was
// ended there is told as unknown; what came after, or was discarded, is not
// told at all.
func TestOtherTurnsDoNotBreakAPrompt(t *testing.T) {
	t.Parallel()
	open := said(0, made("o", model.CallApprovalRequested, nil))
	over := said(0, made("e", model.CallApprovalResponded, nil))
	over.Ended = model.TurnAborted
	dead := said(0)
	dead.Discarded = true
	own := said(0, made("c", model.CallOutputAvailable, func(c *store.MessageCall) { c.Output = json.RawMessage(`true`) }))
	streaming := said(1)
	streaming.ID = "live"
	got := ask(t, 1, nil, assistant("other", open), assistant("ended", over), assistant("gone", dead), assistant("m", own, streaming),
		person("later", `[{"type":"text","text":"Not yet"}]`))
	for _, absent := range []string{`"o"`, "Not yet"} {
		if strings.Contains(got, absent) {
			t.Errorf("the prompt has %s:\n%s", absent, got)
		}
	}
	for _, present := range []string{`{"content":"The result is not known.","role":"tool","tool_call_id":"e"}`, `{"content":"true","role":"tool","tool_call_id":"c"}`} {
		if !strings.Contains(got, present) {
			t.Errorf("the prompt lacks %s:\n%s", present, got)
		}
	}
	if n := strings.Count(got, `"role":"assistant"`); n != 3 {
		t.Errorf("the prompt has %d steps:\n%s", n, got)
	}
}

// People's images go as images, other files as words; what the model cannot
// be told is left out.
func TestWhatPeopleSaid(t *testing.T) {
	t.Parallel()
	got := ask(t, 0, nil,
		person("1", `[{"type":"text","text":"Look"},{"type":"file","mediaType":"image/png","url":"https://x/y.png"}]`),
		person("2", `[{"type":"file","mediaType":"application/pdf","url":"data:,x","filename":"a.pdf"}]`),
		person("3", `[{"type":"data-mine","data":{}}]`),
		store.Message{ID: "4", Role: "system", Parts: json.RawMessage(`[{"type":"text","text":"Be kind."}]`)})
	want := strings.Join([]string{
		`{"content":"Be brief.","role":"system"}`,
		`{"content":[{"text":"Look","type":"text"},{"image_url":{"url":"https://x/y.png"},"type":"image_url"}],"role":"user"}`,
		`{"content":"[a file of type application/pdf, which you cannot see: a.pdf]","role":"user"}`,
		`{"content":"Be kind.","role":"system"}`,
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the prompt:\n%s", diff)
	}
}

// Two tools never have the same function's name.
func TestFunctionNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	seen := map[string]string{}
	for _, tool := range []string{"a_b", "a.b", "a b", "a/b", "ä", long, long + "y", "files__delete-it"} {
		name := functionName(tool)
		if len(name) > maxFunctionName || seen[name] != "" {
			t.Errorf("%s: %s, which is that of %q", tool, name, seen[name])
		}
		seen[name] = tool
		r := request{tools: []function{{name: name, tool: tool}}}
		if r.tool(name) != tool {
			t.Errorf("%s means %s", name, r.tool(name))
		}
	}
	if functionName("files__delete-it") != "files__delete-it" {
		t.Error("a name that fits was changed")
	}
}

// Several models answer one message: none is told what another one says. A
// later message is answered with all of them in mind.
func TestOtherAnswersToTheSameMessageAreNotTold(t *testing.T) {
	t.Parallel()
	question := person("u", `[{"type":"text","text":"Clean up"}]`)
	asks := model.NewTurnID()
	question.Turns = []store.MessageTurn{{Turn: &model.Turn{ID: asks, Message: "u", Reply: true}}}
	asked := func(id string, to model.TurnID) store.Message {
		m := assistant(id, said(0))
		m.Turns[0].Continues = to
		return m
	}
	alone := []string{`{"content":"Be brief.","role":"system"}`, `{"content":"Clean up","role":"user"}`, `{"content":"I will.","role":"assistant"}`}
	got := ask(t, 1, nil, question, assistant("a", said(0)), asked("m", asks), assistant("b", said(0)))
	if diff := cmp.Diff(strings.Join(alone, "\n"), got); diff != "" {
		t.Errorf("beside two others (-want +got)\n%s", diff)
	}
	later := person("u2", `[{"type":"text","text":"And now?"}]`)
	again := model.NewTurnID()
	later.Turns = []store.MessageTurn{{Turn: &model.Turn{ID: again, Message: "u2", Reply: true}}}
	got = ask(t, 0, nil, question, assistant("a", said(0)), asked("b", asks), later, asked("m", again))
	if want := strings.Join(append(alone, alone[2], `{"content":"And now?","role":"user"}`), "\n"); got != want {
		t.Errorf("a later message (-want +got)\n%s", cmp.Diff(want, got))
	}
}
