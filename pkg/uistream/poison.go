package uistream

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/countersign/countersign/pkg/strictjson"
)

// harmless gives an output that every client can read: the SDK's parser
// throws on members that would reach into an object's prototype, so such an
// output is told as its text.
func harmless(output strictjson.Raw) strictjson.Raw {
	if !Poisonous(output) {
		return output
	}
	text, err := strictjson.Marshal(string(output))
	if err != nil {
		return strictjson.Raw(`"an output that cannot be shown"`)
	}
	return text
}

// ErrPoison says that a client would fail on the chunk's members.
var ErrPoison = errors.New("has a member __proto__ or constructor, on which the AI SDK's clients fail")

// unpoisoned gives a chunk that every client can read: an output, which nobody
// here can have chosen otherwise, is told as its text; any other member is its
// sender's to leave out.
func (c Chunk) unpoisoned() (Chunk, error) {
	c = c.Changed()
	c.Output = harmless(c.Output)
	text, err := c.Encode()
	if err != nil || c.Type != ToolOutputAvailable || Poisonous(text) {
		return Chunk{}, ErrPoison
	}
	c.raw = text // which is what counts against a step's size
	return c, nil
}

// unpoisonedMetadata gives metadata that every client can read, or none.
func unpoisonedMetadata(metadata strictjson.Raw) strictjson.Raw {
	if Poisonous(metadata) {
		return nil
	}
	return metadata
}

// Poisonous tells whether a JSON value has a member on which the SDK's clients
// fail their whole stream: __proto__ anywhere, or constructor with a member
// prototype. A text that speaks of them is none.
func Poisonous(value []byte) bool {
	named := bytes.Contains(value, []byte("__proto__")) || bytes.Contains(value, []byte("constructor"))
	if !named && !bytes.Contains(value, []byte(`\u`)) { // written with escapes, a name is the same name
		return false
	}
	var v any
	return json.Unmarshal(value, &v) == nil && poisonous(v)
}

func poisonous(v any) bool {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			if poisonous(element) {
				return true
			}
		}
	case map[string]any:
		for name, member := range v {
			inner, isObject := member.(map[string]any)
			_, prototype := inner["prototype"]
			if name == "__proto__" || name == "constructor" && isObject && prototype || poisonous(member) {
				return true
			}
		}
	}
	return false
}
