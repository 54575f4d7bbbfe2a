package uimessage

import (
	"encoding/json"
	"fmt"
)

// CheckExtra tells whether the fields that a caller sent beside a call's own
// (title, callProviderMetadata, toolMetadata, …) have the types that the AI
// SDK's validation wants; a part that was let in with others would make the
// whole history unreadable to the SDK. extra is a JSON object, or nil. The
// error names the field.
func CheckExtra(extra json.RawMessage) error {
	fields := members(extra)
	for _, name := range sortedNames(fields) {
		fits, want := true, ""
		switch value := fields[name]; name {
		case "title":
			fits, want = isA[string](value), "a string"
		case "providerExecuted", "preliminary":
			fits, want = isA[bool](value), "true or false"
		case "toolMetadata":
			fits, want = isA[map[string]json.RawMessage](value), "an object"
		case "callProviderMetadata", "resultProviderMetadata":
			fits, want = isObjects(value), "an object of objects"
		}
		if !fits {
			return fmt.Errorf("%s must be %s", name, want)
		}
	}
	return nil
}

// isA tells whether raw is a T; the decoder would take null for anything.
func isA[T any](raw json.RawMessage) bool {
	return string(raw) != "null" && json.Unmarshal(raw, new(T)) == nil
}

func isObjects(raw json.RawMessage) bool {
	if !isA[map[string]json.RawMessage](raw) {
		return false
	}
	for _, value := range members(raw) {
		if !isA[map[string]json.RawMessage](value) {
			return false
		}
	}
	return true
}
