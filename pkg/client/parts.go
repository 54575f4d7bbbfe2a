package client

import "encoding/json"

// TextPart is a part of plain text.
func TextPart(text string) Part {
	return mustPart(map[string]any{"type": "text", "text": text})
}

// ToolPart is a call that the model makes, with its input as JSON. The bytes
// of input are what is shown, approved and run.
func ToolPart(tool, toolCallID string, input json.RawMessage) Part {
	return mustPart(struct {
		Type       string          `json:"type"`
		ToolCallID string          `json:"toolCallId"`
		State      string          `json:"state"`
		Input      json.RawMessage `json:"input"`
	}{"tool-" + tool, toolCallID, "input-available", input})
}

// mustPart writes v. An input that is no JSON stays as it is, and the request
// that carries it fails with the place of the error.
func mustPart(v any) Part {
	encoded, err := encode(v)
	if err != nil {
		return Part("{" + err.Error())
	}
	return encoded
}
