package backend

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/client"
)

// said is what the model says and calls after a history: its words, and the
// inputs of its calls by tool.
func said(t *testing.T, parts []client.Part) (words string, calls map[string]string) {
	t.Helper()
	calls = map[string]string{}
	for _, raw := range parts {
		var p struct {
			Type, Text, ToolCallID, State string
			Input                         json.RawMessage
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		if p.Type == "text" {
			words += p.Text
		} else {
			calls[strings.TrimPrefix(p.Type, "tool-workspace__")] = string(p.Input)
		}
	}
	return words, calls
}

// answer is an assistant's message made of parts.
func answer(parts ...string) []client.Part {
	var out []client.Part
	for _, p := range parts {
		out = append(out, client.Part(p))
	}
	return out
}

const (
	begun  = `{"type":"step-start"}`
	listed = `{"type":"tool-workspace__list_files","state":"output-available","input":{"path":"logs"},` +
		`"output":{"content":[{"type":"text","text":"logs/2026-11.log\nlogs/2024-11.log"}]}}`
	alone = `{"type":"tool-workspace__list_files","state":"output-available","input":{"path":"logs"},` +
		`"output":{"content":[{"type":"text","text":"logs/2026-11.log"}]}}`
	removed = `{"type":"tool-workspace__delete_file","input":{"path":"logs/2024-11.log"},`
)

// The model goes from the list to the card to an answer that knows the
// verdict, by the history alone.
func TestTheModelFollowsItsScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		history []client.Part
		words   string
		calls   map[string]string
	}{
		{"a person asks", nil, "which logs", map[string]string{"list_files": `{"path":"logs"}`}},
		{"the list", answer(begun, listed), "logs/2024-11.log is the oldest",
			map[string]string{"read_file": `{"path":"logs/2024-11.log"}`, "delete_file": `{"path":"logs/2024-11.log"}`}},
		{"nothing old", answer(begun, alone), "nothing old",
			map[string]string{"write_file": `{"path":"logs/2024-11.log","content":"2024-11-30 23:59:58 rotated\n"}`}},
		{"no list", answer(begun, `{"type":"tool-workspace__list_files","state":"output-error","errorText":"gone"}`), "leave everything",
			map[string]string{}},
		{"deleted", answer(begun, listed, begun, removed+`"state":"output-available","output":null}`),
			"logs/2024-11.log is deleted. Still there: logs/2026-11.log.", map[string]string{}},
		{"denied", answer(begun, listed, begun, removed+`"state":"output-denied","approval":{"id":"a","approved":false,"reason":"keep it"}}`),
			"The answer was: keep it", map[string]string{}},
		{"failed", answer(begun, listed, begun, removed+`"state":"output-error","errorText":"busy"}`), "did not work: busy", map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			history := &conversation{request: client.Message{ID: "m1"}}
			history.readSteps(c.history)
			words, calls := said(t, history.next())
			if !strings.Contains(words, c.words) {
				t.Errorf("said %q", words)
			}
			if diff := cmp.Diff(c.calls, calls); diff != "" {
				t.Error(diff)
			}
			again, _ := said(t, history.next())
			if again != words {
				t.Error("another backend would say something else")
			}
		})
	}
}
