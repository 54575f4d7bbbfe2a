package uimessage

import (
	"encoding/json"
	"testing"

	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/store"
)

// TestTheAISDKTakesEveryPart asks the real validateUIMessages of both
// versions about every line of the table.
func TestTheAISDKTakesEveryPart(t *testing.T) {
	t.Parallel()
	messages := map[string]json.RawMessage{
		"no turn has parts yet": Message(store.Message{ID: "m", Role: "assistant"}),
		"a person's message":    json.RawMessage(`{"id":"u","role":"user","parts":[{"type":"text","text":"hi"}]}`),
	}
	for _, p := range parts {
		messages[p.name] = Message(p.message())
	}
	var refused map[string]string
	testnode.Run(t, "testdata/validate", "validate.mjs", messages, &refused)
	for name, why := range refused {
		t.Errorf("%s is refused: %s", name, why)
	}
}
