package uimessage

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// notKnownYet stands in an ended turn for a result that nobody knows: the
// turn is over, so its part must be, and the truth replaces it when it comes.
const notKnownYet = "outcome not known yet"

// Message is m as a UIMessage of the AI SDK. It always passes the SDK's
// validateUIMessages, and every input and output stands in it byte by byte as
// it came. The bytes are JSON; an encoder that rewrites raw values would
// change them, so they are to be written as they are.
func Message(m store.Message) json.RawMessage { return Signed(m, nil) }

// Sign gives the signature of the question about a call, "" for none.
type Sign func(store.MessageCall) string

// Signed is the message with the signatures of its questions, where the AI
// SDK's clients keep them.
func Signed(m store.Message, sign Sign) json.RawMessage {
	var o object
	o.text("id", string(m.ID))
	o.text("role", m.Role)
	if said := about(m); len(said) > 0 {
		o.raw("metadata", said)
	}
	parts := m.Parts
	if m.Role == "assistant" || parts == nil {
		var all []json.RawMessage
		for _, t := range m.Turns {
			all = append(all, SignedParts(t, sign)...)
		}
		parts = array(all)
	}
	o.raw("parts", parts)
	return o.close()
}

// TurnParts are the parts of one turn: what was registered, byte by byte, and
// each call's part as its row is now.
func TurnParts(t store.MessageTurn) []json.RawMessage { return SignedParts(t, nil) }

// SignedParts are the parts of one turn with the signatures of its questions.
func SignedParts(t store.MessageTurn, sign Sign) []json.RawMessage {
	calls := make(map[int]store.MessageCall, len(t.Calls))
	for _, c := range t.Calls {
		calls[c.Part] = c
	}
	out := make([]json.RawMessage, 0, len(t.Parts))
	for i, part := range t.Parts {
		if part != nil {
			out = append(out, part)
		} else if c, ok := calls[i]; ok {
			out = append(out, toolPart(c, t.Ended != "", sign))
		}
	}
	return out
}

// toolPart draws a call. ended tells whether its turn is over.
func toolPart(c store.MessageCall, ended bool, sign Sign) json.RawMessage {
	state, errorText := c.State, c.ErrorText
	if ended && c.Run == model.RunUnknown && !state.Settled() {
		state, errorText = model.CallOutputError, notKnownYet
	}
	var o object
	if c.Dynamic {
		o.text("type", "dynamic-tool")
		o.text("toolName", c.Tool.Name)
	} else {
		o.text("type", "tool-"+c.Tool.Name)
	}
	o.text("toolCallId", c.ToolCallID)
	o.text("state", string(state))
	o.raw("input", c.Input)
	switch state {
	case model.CallOutputAvailable:
		o.raw("output", c.Output)
	case model.CallOutputError:
		o.text("errorText", errorText)
	}
	if a := approval(c, sign); a != nil && state != model.CallInputAvailable && state != model.CallInputStreaming {
		o.raw("approval", a)
	}
	writeExtra(&o, c)
	return o.close()
}

// approval is the part's approval object, or nil where nobody was asked and
// no policy refused.
func approval(c store.MessageCall, sign Sign) json.RawMessage {
	a := c.Approval
	if a == nil {
		return nil
	}
	var o object
	o.text("id", string(a.ID))
	if sign != nil {
		if signature := sign(c); signature != "" {
			o.text("signature", signature)
		}
	}
	if a.State == model.ApprovalRequested {
		return o.close()
	}
	o.flag("approved", a.State == model.ApprovalApproved)
	if a.Reason != "" {
		o.text("reason", a.Reason)
	}
	// No decision stands behind a denial that a policy made at registration.
	if a.State == model.ApprovalDenied && a.DecisionID == "" {
		o.flag("isAutomatic", true)
	}
	return o.close()
}

// own are the fields of a part that say what the call's row says: whatever
// its caller sent under these names does not count.
var own = []string{
	"type", "toolName", "toolCallId", "state", "input", "rawInput", "output", "errorText", "approval", "preliminary", "toolMetadata",
}

// writeExtra adds the caller's other fields, and ours within toolMetadata.
func writeExtra(o *object, c store.MessageCall) {
	extra := members(c.Extra)
	for _, name := range sortedNames(extra) {
		if !slices.Contains(own, name) {
			o.raw(name, extra[name])
		}
	}
	var metadata object
	theirs := members(extra["toolMetadata"])
	for _, name := range sortedNames(theirs) {
		if name != "countersign" {
			metadata.raw(name, theirs[name])
		}
	}
	metadata.raw("countersign", metadataOf(c.Call))
	o.raw("toolMetadata", metadata.close())
}

// metadataOf is what the AI SDK has no word for.
func metadataOf(c *model.Call) json.RawMessage {
	var o object
	o.text("call", string(c.ID))
	if c.Outcome != "" {
		o.text("outcome", string(c.Outcome))
	}
	if len(c.Digest) > 0 {
		o.text("digest", hex.EncodeToString(c.Digest))
	}
	if c.Edited {
		o.flag("edited", true)
	}
	if c.Fence > 0 {
		o.number("attempts", c.Fence)
	}
	if c.Resolution != nil {
		o.text("resolution", string(c.Resolution.Outcome))
	}
	return o.close()
}

// members reads a JSON object's members, their values as they stand. What is
// no object has none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

func sortedNames(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
