package uistream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/strictjson"
)

// toolPart is a tool part as a history has it.
func toolPart(state, rest string) strictjson.Raw {
	if rest != "" {
		rest = "," + rest
	}
	return strictjson.Raw(`{"type":"tool-delete_file","toolCallId":"c","state":"` + state + `","input":{"path":"/x"}` + rest +
		`,"toolMetadata":{"countersign":{"call":"1"}}}`)
}

const approvedPart, deniedPart = `"approval":{"id":"a","approved":true,"reason":"ok"}`, `"approval":{"id":"a","approved":false,"reason":"no"}`

// told are histories of one turn, as the rows show them.
var toldTurns = map[string][]strictjson.Raw{
	"waiting":            {toolPart(approvalRequested, `"approval":{"id":"a"}`)},
	"approved":           {toolPart(approvalResponded, approvedPart)},
	"approved and ran":   {toolPart(outputAvailable, `"output":{"ok":true},`+approvedPart)},
	"approved, failed":   {toolPart(outputError, `"errorText":"EPERM",`+approvedPart)},
	"denied":             {toolPart(outputDenied, deniedPart)},
	"denied by policy":   {toolPart(outputDenied, `"approval":{"id":"a","approved":false,"reason":"no","isAutomatic":true}`)},
	"allowed and ran":    {toolPart(outputAvailable, `"output":null`)},
	"allowed, executing": {toolPart(inputAvailable, "")},
	"text and a thought": {
		strictjson.Raw(`{"type":"reasoning","id":"r","text":"hm","state":"done","providerMetadata":{"p":{"a":1}}}`),
		strictjson.Raw(`{"type":"text","text":"Hello","state":"done"}`), strictjson.Raw(`{"type":"text","text":"","state":"done"}`),
	},
	"sources and data": {
		strictjson.Raw(`{"type":"source-url","sourceId":"s","url":"https://x","title":"t"}`),
		strictjson.Raw(`{"type":"file","url":"https://x","mediaType":"image/png"}`),
		strictjson.Raw(`{"type":"data-countersign-note","data":{"text":"edited","toolCallId":"c"}}`),
	},
	"a dynamic call": {strictjson.Raw(`{"type":"dynamic-tool","toolName":"x","toolCallId":"c","state":"output-available","input":1,"output":2,"title":"X"}`)},
}

// A client of V7 that is told a history has the same history.
func TestReplayIsTheWholeHistory(t *testing.T) {
	t.Parallel()
	var names []string
	var questions []reduction
	for name, parts := range toldTurns {
		names = append(names, name)
		questions = append(questions, reduction{Version: V7, Chunks: replayed(t, parts, V7)})
	}
	for i, answer := range reduce(t, questions) {
		want := append([]strictjson.Raw{strictjson.Raw(stepStart)}, toldTurns[names[i]]...)
		if answer.Error != "" || answer.Invalid != "" {
			t.Errorf("%s: the client fails: %s%s", names[i], answer.Error, answer.Invalid)
		} else if !same(t, answer.Message.Parts, want) {
			t.Errorf("%s:\n%s\nwant\n%s", names[i], answer.Message.Parts, want)
		}
	}
}

const stepStart = `{"type":"step-start"}`

func replayed(t *testing.T, parts []strictjson.Raw, v Version) []json.RawMessage {
	t.Helper()
	chunks, err := Replay(append([]strictjson.Raw{strictjson.Raw(stepStart)}, parts...), v)
	if err != nil {
		t.Fatal(err)
	}
	return lines(t, append([]Chunk{{Type: Start, MessageID: "m"}}, chunks...))
}

// A client of V6 takes every history, with a card exactly where an answer is
// still wanted; of what people answered it is told by the outcome.
func TestReplayToV6(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"waiting":          `"approval-requested","toolCallId":"c","approval":{"id":"a"}`,
		"approved":         `"input-available","toolCallId":"c"`,
		"approved and ran": `"output-available","toolCallId":"c","output":{"ok":true}`,
		"approved, failed": `"output-error","toolCallId":"c","errorText":"EPERM"`,
		"denied":           `"output-denied","toolCallId":"c","approval":{"id":"a"}`,
		"denied by policy": `"output-denied","toolCallId":"c","approval":{"id":"a"}`,
	}
	var names []string
	var questions []reduction
	for name := range want {
		names = append(names, name)
		questions = append(questions, reduction{Version: V6, Chunks: replayed(t, toldTurns[name], V6)})
	}
	for i, answer := range reduce(t, questions) {
		if answer.Error != "" {
			t.Errorf("%s: the client fails: %s", names[i], answer.Error)
			continue
		}
		// V6 has no chunk for a verdict, so a denial stands without it there.
		if denied := strings.HasPrefix(names[i], "denied"); answer.Invalid != "" && !denied {
			t.Errorf("%s: %s", names[i], answer.Invalid)
		}
		var got map[string]json.RawMessage
		_ = json.Unmarshal(answer.Message.Parts[1], &got)
		delete(got, "toolMetadata")
		delete(got, "input")
		delete(got, "type")
		if wanted := `{"state":` + want[names[i]] + `}`; !same(t, got, strictjson.Raw(wanted)) {
			t.Errorf("%s: %s, want %s", names[i], raw(t, got), wanted)
		}
	}
}

// Whatever a client believed, it ends with what was committed.
func TestUpdate(t *testing.T) {
	t.Parallel()
	asked, saidYes := toolPart(approvalRequested, `"approval":{"id":"a"}`), toolPart(approvalResponded, approvedPart)
	saidNo := toolPart(approvalResponded, deniedPart)
	ran, denied := toolPart(outputAvailable, `"output":1,`+approvedPart), toolPart(outputDenied, deniedPart)
	expired := toolPart(outputDenied, `"approval":{"id":"a","approved":false,"reason":"Nobody answered."}`)
	for name, test := range map[string]struct {
		before, now strictjson.Raw
		v           Version
		want        string // the chunks' types
	}{
		"its own approval ran":          {saidYes, ran, V6, ToolOutputAvailable},
		"its own approval ran, v7":      {saidYes, ran, V7, ToolOutputAvailable},
		"its own denial":                {saidNo, denied, V6, ToolOutputDenied},
		"its own denial, v7":            {saidNo, denied, V7, ToolOutputDenied},
		"denied elsewhere":              {asked, denied, V6, ToolOutputDenied},
		"denied elsewhere, v7":          {asked, denied, V7, ToolApprovalResponse + " " + ToolOutputDenied},
		"approved elsewhere":            {asked, saidYes, V6, ""},
		"approved elsewhere, v7":        {asked, saidYes, V7, ToolApprovalResponse},
		"ran elsewhere, v7":             {asked, ran, V7, ToolApprovalResponse + " " + ToolOutputAvailable},
		"believed approved, expired":    {saidYes, expired, V6, ToolOutputError},
		"believed approved, expired v7": {saidYes, expired, V7, ToolApprovalResponse + " " + ToolOutputDenied},
		"believed denied, ran, v7":      {saidNo, ran, V7, ToolApprovalResponse + " " + ToolOutputAvailable},
		"nothing new":                   {saidYes, saidYes, V7, ""},
		"asked again":                   {saidYes, toolPart(approvalRequested, `"approval":{"id":"b"}`), V6, ToolApprovalRequest},
		"edited": {saidYes, strictjson.Raw(`{"type":"tool-delete_file","toolCallId":"c","state":"output-available","input":{"path":"/y"},"output":1,` +
			approvedPart + `}`), V6, ToolInputAvailable + " " + ToolOutputAvailable},
	} {
		chunks, err := Update(test.before, test.now, test.v)
		var types []string
		for _, c := range chunks {
			types = append(types, c.Type)
		}
		if got := strings.Join(types, " "); err != nil || got != test.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, test.want, err)
		}
	}
}

// A client is told of each thing once, whatever its version can be told.
func TestTrackerTellsOnce(t *testing.T) {
	t.Parallel()
	befores := []strictjson.Raw{toolPart(approvalRequested, `"approval":{"id":"a"}`), toolPart(approvalResponded, approvedPart), toolPart(approvalResponded, deniedPart)}
	nows := []strictjson.Raw{toolPart(outputAvailable, `"output":1,`+approvedPart), toolPart(outputError, `"errorText":"no",`+approvedPart), toolPart(outputDenied, deniedPart)}
	for _, v := range []Version{V6, V7} {
		for i, before := range befores {
			for j, now := range nows {
				var client Tracker
				if err := client.Know(before); err != nil {
					t.Fatal(err)
				}
				if first, err := client.Update(now, v); err != nil || len(first) == 0 {
					t.Errorf("v%d, %d to %d: %+v, %v", v, i, j, first, err)
				}
				if again, err := client.Update(now, v); err != nil || len(again) != 0 {
					t.Errorf("v%d, %d to %d is told again: %+v, %v", v, i, j, again, err)
				}
			}
		}
	}
}

// The output of a provider's own call is told as text then, and metadata that
// came another way is left out.
func TestPoisonIsNotTold(t *testing.T) {
	t.Parallel()
	c, err := Parse([]byte(`{"type":"tool-output-available","toolCallId":"c","output":{"__proto__":1}}`))
	if err != nil || string(c.Output) != `"{\"__proto__\":1}"` {
		t.Errorf("an output: %s, %v", c.Output, err)
	}
	chunks, err := Replay([]strictjson.Raw{
		strictjson.Raw(`{"type":"text","text":"a","providerMetadata":{"p":{"__proto__":1}}}`),
		strictjson.Raw(`{"type":"tool-x","toolCallId":"c","state":"input-available","input":1,"toolMetadata":{"__proto__":1},"callProviderMetadata":{"p":{"__proto__":1}}}`),
	}, V7)
	for _, c := range chunks {
		if line, err := c.Encode(); err != nil || Poisonous(line) {
			t.Errorf("is told: %s, %v", line, err)
		}
	}
	if err != nil || len(chunks) != 4 {
		t.Errorf("%+v, %v", chunks, err)
	}
}

// A member that would make the SDK's parser throw is told as text, and a value
// that merely speaks of one is told as it is.
func TestPoisonousOutput(t *testing.T) {
	t.Parallel()
	for output, poison := range map[string]bool{
		`{"__proto__":1}`:                               true,
		`{"\u005f_proto__":1}`:                          true,
		`{"constructor":{"prototype":1}}`:               true,
		`[{"a":{"\u0063onstructor":{"prototype":{}}}}]`: true,
		`{"kind":"constructor"}`:                        false,
		`["__proto__","constructor"]`:                   false,
		`{"constructor":"Lada"}`:                        false,
		`{"constructor":{"name":"x"}}`:                  false,
		`"\u005f"`:                                      false,
	} {
		chunks, err := Update(toolPart(inputAvailable, ""), toolPart(outputAvailable, `"output":`+output), V6)
		if err != nil || len(chunks) != 1 {
			t.Fatalf("%s: %+v, %v", output, chunks, err)
		}
		if told := string(chunks[0].Output) != output; told != poison {
			t.Errorf("%s is told as %s", output, chunks[0].Output)
		}
	}
}
