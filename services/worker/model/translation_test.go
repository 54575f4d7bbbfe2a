package model

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/uistream"
)

// recorder keeps the chunks that it is given, as a step takes them.
type recorder struct {
	step  uistream.Step
	lines []string
}

func (r *recorder) Take(_ context.Context, line []byte) (bool, error) {
	c, err := uistream.Parse(line)
	if err == nil {
		_, err = r.step.Add(c)
	}
	r.lines = append(r.lines, string(line))
	return r.step.Ended(), err
}

// translate gives the chunks of a stream of deltas that ends well.
func translate(t *testing.T, deltas ...delta) []string {
	t.Helper()
	r := &recorder{}
	tr := newTranslation(request{tools: []function{{name: "list", tool: "list"}}, used: map[string]bool{"taken": true}}, r)
	for i, d := range deltas {
		done, err := tr.take(t.Context(), d)
		if err != nil || done != (i == len(deltas)-1) {
			t.Fatalf("delta %d: done %t, %v", i, done, err)
		}
	}
	return r.lines
}

func TestAnAnswerAsChunks(t *testing.T) {
	t.Parallel()
	got := translate(t,
		delta{reasoning: "Hm. "}, delta{text: "I "}, delta{text: "list."},
		delta{calls: []callDelta{{0, "c1", "list", ""}}}, delta{calls: []callDelta{{0, "", "", `{"a"`}}}, delta{calls: []callDelta{{0, "", "", `: 1}`}}},
		delta{calls: []callDelta{{1, "c2", "list", ""}}}, delta{text: "Late."}, delta{finish: "tool_calls"})
	want := []string{
		`{"type":"reasoning-start","id":"1"}`, `{"type":"reasoning-delta","id":"1","delta":"Hm. "}`, `{"type":"reasoning-end","id":"1"}`,
		`{"type":"text-start","id":"2"}`, `{"type":"text-delta","id":"2","delta":"I "}`, `{"type":"text-delta","id":"2","delta":"list."}`,
		`{"type":"text-end","id":"2"}`,
		`{"type":"tool-input-start","toolCallId":"c1","toolName":"list"}`,
		`{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{\"a\""}`, `{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":": 1}"}`,
		`{"type":"tool-input-available","toolCallId":"c1","toolName":"list","input":{"a": 1}}`,
		`{"type":"tool-input-start","toolCallId":"c2","toolName":"list"}`,
		`{"type":"reasoning-start","id":"3"}`, `{"type":"reasoning-delta","id":"3","delta":"Late."}`, `{"type":"reasoning-end","id":"3"}`,
		`{"type":"tool-input-available","toolCallId":"c2","toolName":"list","input":{}}`,
		`{"type":"finish-step"}`, `{"type":"finish","finishReason":"tool-calls"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chunks:\n%s", diff)
	}
}

// What cannot be run is a call that is settled at once, with the reason.
func TestCallsThatCannotRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call callDelta
		want string
	}{
		"not JSON":     {callDelta{0, "c", "list", `{"a":`}, "not valid JSON"},
		"twice a name": {callDelta{0, "c", "list", `{"a":1,"a":2}`}, "not valid JSON"},
		"too deep":     {callDelta{0, "c", "list", strings.Repeat("[", 63) + strings.Repeat("]", 63)}, "not valid JSON"},
		"poison":       {callDelta{0, "c", "list", `{"__proto__":{}}`}, "__proto__"},
		"too large":    {callDelta{0, "c", "list", `"` + strings.Repeat("x", uistream.MaxInput) + `"`}, "too large"},
		"not offered":  {callDelta{0, "c", "drop_table", `{}`}, "may call here"},
		"no name":      {callDelta{0, "c", "\x00", `{}`}, "may call here"},
		"bad UTF-8":    {callDelta{0, "c", "list", "{\"a\":\"\xff"}, "not valid JSON"},
	} {
		lines := translate(t, delta{calls: []callDelta{test.call}}, delta{finish: "tool_calls"})
		if refused := lines[len(lines)-3]; !strings.Contains(refused, "tool-input-error") || !strings.Contains(refused, test.want) {
			t.Errorf("%s: %.300s", name, refused)
		}
	}
}

// An id that the message has, or that is none, is replaced; calls that share
// an index are told apart by their ids.
func TestCallIDs(t *testing.T) {
	t.Parallel()
	lines := translate(t, delta{calls: []callDelta{{0, "taken", "list", "{}"}}}, delta{calls: []callDelta{{0, "c", "list", "{}"}}},
		delta{calls: []callDelta{{1, "", "list", "{}"}}}, delta{calls: []callDelta{{2, "c", "list", "{}"}}}, delta{finish: "stop"})
	ids := map[string]bool{}
	for _, l := range lines {
		c, err := uistream.Parse([]byte(l))
		if err != nil {
			t.Fatal(err)
		}
		if c.Type == uistream.ToolInputAvailable {
			ids[c.ToolCallID] = true
		}
	}
	if len(ids) != 4 || ids["taken"] || !ids["c"] {
		t.Errorf("ids: %v", ids)
	}
}

// A step holds so many calls and no more: the turn ends with them.
func TestMoreCallsThanAStepHolds(t *testing.T) {
	t.Parallel()
	var deltas []delta
	for i := range approval.MaxCalls + 1 {
		deltas = append(deltas, delta{calls: []callDelta{{int64(i), fmt.Sprint("c", i), "list", "{}"}}})
	}
	lines := translate(t, deltas...)
	if n := strings.Count(strings.Join(lines, "\n"), "tool-input-available"); n != approval.MaxCalls {
		t.Errorf("%d calls were taken", n)
	}
}

func TestEndsOfAnswers(t *testing.T) {
	t.Parallel()
	for theirs, want := range map[string]string{"stop": "stop", "length": "length", "tool_calls": "tool-calls", "function_call": "tool-calls",
		"content_filter": "content-filter", "eos": "other"} {
		lines := translate(t, delta{text: "x"}, delta{finish: theirs})
		if got := lines[len(lines)-1]; got != `{"type":"finish","finishReason":"`+want+`"}` {
			t.Errorf("%s: %s", theirs, got)
		}
	}
	tr := newTranslation(request{}, &recorder{})
	var failed *Failure
	if err := tr.end(t.Context()); !errors.As(err, &failed) || failed.ForGood {
		t.Errorf("a stream that does not say why it ends: %v", err)
	}
}
