package uistream

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/strictjson"
)

// reduction is a question to the SDK's own client: what it makes of chunks,
// on top of the message that it has.
type reduction struct {
	Version Version           `json:"version"`
	Chunks  []json.RawMessage `json:"chunks"`
	Before  json.RawMessage   `json:"before,omitzero"`
}

// reduced is its answer.
type reduced struct {
	Message struct {
		ID    string           `json:"id"`
		Parts []strictjson.Raw `json:"parts"`
	} `json:"message"`
	Invalid string `json:"invalid"`
	Error   string `json:"error"`
}

// reduce asks the published clients of both versions.
func reduce(t *testing.T, questions []reduction) []reduced {
	t.Helper()
	var answers []reduced
	testnode.Run(t, "testdata/reduce", "reduce.mjs", questions, &answers)
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

// lines are chunks as they go over the wire.
func lines(t *testing.T, chunks []Chunk) []json.RawMessage {
	t.Helper()
	var out []json.RawMessage
	for _, c := range chunks {
		line, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	return out
}

func raw(t *testing.T, v any) strictjson.Raw {
	t.Helper()
	text, err := strictjson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// same compares JSON values, whatever the order of their members.
func same(t *testing.T, a, b any) bool {
	t.Helper()
	var values [2]any
	for i, v := range []any{a, b} {
		if err := json.Unmarshal(raw(t, v), &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	x, _ := json.Marshal(values[0])
	y, _ := json.Marshal(values[1])
	return bytes.Equal(x, y)
}
