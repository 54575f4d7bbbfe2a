package uimessage

import (
	"encoding/json"

	"github.com/countersign/countersign/pkg/store"
)

// about is what was said of a message: by whoever wrote it, or by the
// model's stream in each of its turns, merged as the AI SDK's client merges it
// while it reads the chunks. nil is nothing.
func about(m store.Message) json.RawMessage {
	out := m.Metadata
	for _, t := range m.Turns {
		for _, said := range t.Metadata {
			out = merge(out, said)
		}
	}
	return out
}

// merge puts the members of one object into another: objects below are merged,
// too, everything else is replaced.
func merge(into, said json.RawMessage) json.RawMessage {
	if len(into) == 0 {
		return said
	}
	all := members(into)
	for name, value := range members(said) {
		switch name {
		case "__proto__", "constructor", "prototype": // which the client leaves as they are
			continue
		}
		if members(all[name]) != nil && members(value) != nil {
			value = merge(all[name], value)
		}
		all[name] = value
	}
	var o object
	for _, name := range sortedNames(all) {
		o.raw(name, all[name])
	}
	return o.close()
}
