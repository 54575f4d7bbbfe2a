package uimessage

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/store"
)

// TestTheAISDKTakesEveryPart asks the real validateUIMessages of both
// versions about every line of the table.
func TestTheAISDKTakesEveryPart(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("testdata/validate/validate.mjs")
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]json.RawMessage{
		"no turn has parts yet": Message(store.Message{ID: "m", Role: "assistant"}),
		"a person's message":    json.RawMessage(`{"id":"u","role":"user","parts":[{"type":"text","text":"hi"}]}`),
	}
	for _, p := range parts {
		messages[p.name] = Message(p.message())
	}
	body, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	// A script that is passed like this finds packages from its folder.
	run := exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", string(script))
	run.Dir, run.Stdin = filepath.Dir(testnode.Packages(t, "testdata/validate")), bytes.NewReader(body)
	var errors bytes.Buffer
	run.Stderr = &errors
	out, err := run.Output()
	if err != nil {
		t.Fatalf("node validate.mjs: %v\n%s", err, errors.Bytes())
	}
	var refused map[string]string
	if err := json.Unmarshal(out, &refused); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for name, why := range refused {
		t.Errorf("%s is refused: %s", name, why)
	}
}
