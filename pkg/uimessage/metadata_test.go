package uimessage

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/store"
)

// said are what the streams of a message's turns say of it, one after the
// other.
var said = map[string][]store.Metadata{
	"once":                {{json.RawMessage(`{"a":1.0}`)}},
	"twice in a turn":     {{json.RawMessage(`{"a":1,"b":{"x":1}}`), json.RawMessage(`{"b":{"y":[1,2]},"c":null}`)}},
	"in two turns":        {{json.RawMessage(`{"a":{"x":{"y":1}}}`)}, nil, {json.RawMessage(`{"a":{"x":{"z":2}}}`)}},
	"replaced":            {{json.RawMessage(`{"a":{"x":1},"b":[1],"c":1}`)}, {json.RawMessage(`{"a":5,"b":[2],"c":{"x":1}}`)}},
	"replaced and merged": {{json.RawMessage(`{"a":{"x":1}}`)}, {json.RawMessage(`{"a":5}`), json.RawMessage(`{"a":{"y":2}}`)}},
	"emptied":             {{json.RawMessage(`{"a":{"x":1}}`), json.RawMessage(`{"a":null}`), json.RawMessage(`{}`)}},
	"names of JavaScript": {{json.RawMessage(`{"constructor":"Lada","toString":1}`), json.RawMessage(`{"constructor":"Volvo","prototype":1,"valueOf":{"a":1}}`)}},
	"nothing":             {nil, nil},
}

// A message's metadata are what the SDK's own client, of either version, has
// after it read the same chunks.
func TestMetadataAreMergedAsTheClientDoes(t *testing.T) {
	t.Parallel()
	type question struct {
		Version int   `json:"version"`
		Chunks  []any `json:"chunks"`
	}
	var names []string
	var questions []question
	for name, turns := range said {
		for _, version := range []int{6, 7} {
			chunks := []any{map[string]string{"type": "start", "messageId": "m"}, map[string]string{"type": "start-step"},
				map[string]string{"type": "text-start", "id": "t"}, map[string]string{"type": "text-end", "id": "t"}}
			for _, turn := range turns {
				for _, one := range turn {
					chunks = append(chunks, map[string]any{"type": "message-metadata", "messageMetadata": one})
				}
			}
			names, questions = append(names, name), append(questions, question{version, chunks})
		}
	}
	for i, theirs := range theirMetadata(t, questions) {
		m := store.Message{ID: "m", Role: "assistant"}
		for _, turn := range said[names[i]] {
			m.Turns = append(m.Turns, store.MessageTurn{Metadata: turn})
		}
		var ours any
		if got := about(m); got != nil {
			if err := json.Unmarshal(got, &ours); err != nil {
				t.Errorf("%s: %v in %s", names[i], err, got)
			}
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s, v%d: %v, want %v", names[i], questions[i].Version, ours, theirs)
		}
	}
	if exact := string(about(store.Message{Turns: []store.MessageTurn{{Metadata: said["once"][0]}}})); exact != `{"a":1.0}` {
		t.Errorf("what was said once is %s", exact)
	}
}

// theirMetadata asks the published clients what a message's metadata are after
// its chunks.
func theirMetadata(t *testing.T, questions any) (out []any) {
	t.Helper()
	const folder = "../uistream/testdata/reduce"
	script, err := os.ReadFile(filepath.Join(folder, "reduce.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", string(script))
	run.Dir, run.Stdin = filepath.Dir(testnode.Packages(t, folder)), bytes.NewReader(body)
	text, err := run.Output()
	if err != nil {
		t.Fatalf("node reduce.mjs: %v", err)
	}
	var answers []struct {
		Message        struct{ Metadata any }
		Error, Invalid string
	}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for _, a := range answers {
		if a.Error != "" || a.Invalid != "" {
			t.Errorf("the client fails: %s%s", a.Error, a.Invalid)
		}
		out = append(out, a.Message.Metadata)
	}
	return out
}
