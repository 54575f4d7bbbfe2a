package approval

import (
	"bytes"
	"strings"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
)

// members reads one JSON object, member by member, each value as it stood in
// the body.
type members struct {
	pointer string
	values  map[string]strictjson.Raw
	faults  *faults
}

// readMembers reads raw; ok is false when it is not an object.
func readMembers(f *faults, pointer string, raw strictjson.Raw) (m members, ok bool) {
	m = members{pointer: pointer, faults: f}
	if !isObject(raw) || strictjson.Unmarshal(raw, &m.values) != nil {
		f.add(pointer, "must be an object")
		return m, false
	}
	return m, true
}

func isObject(raw []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

func (m members) has(name string) bool { return m.values[name] != nil }

func (m members) at(name string) string { return m.pointer + "/" + pointerToken(name) }

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func pointerToken(name string) string { return pointerEscape.Replace(name) }

// text gives a member that must be a string; absent is "" and a fault when it
// is required.
func (m members) text(name string, required bool) string {
	raw := m.values[name]
	if raw == nil {
		if required {
			m.faults.add(m.at(name), "is missing")
		}
		return ""
	}
	var out string
	if strictjson.Unmarshal(raw, &out) != nil {
		m.faults.add(m.at(name), "must be a string")
	}
	return out
}

// id gives a member that must be an id of a caller's choice.
func (m members) id(name string) string {
	id := m.text(name, true)
	if m.has(name) {
		m.faults.check(m.at(name), model.CheckID(id))
	}
	return id
}

// flag gives a member that is true or false; absent is false.
func (m members) flag(name string) bool {
	raw := m.values[name]
	if raw == nil {
		return false
	}
	var out bool
	if strictjson.Unmarshal(raw, &out) != nil {
		m.faults.add(m.at(name), "must be true or false")
	}
	return out
}

// objects checks a member that must be an object of objects, as provider
// metadata is.
func (m members) objects(name string) {
	raw := m.values[name]
	if raw == nil {
		return
	}
	var out map[string]strictjson.Raw
	if !isObject(raw) || strictjson.Unmarshal(raw, &out) != nil {
		m.faults.add(m.at(name), "must be an object of objects")
		return
	}
	for _, value := range out {
		if !isObject(value) {
			m.faults.add(m.at(name), "must be an object of objects")
			return
		}
	}
}

// oneOf checks a text against the words that are known.
func (m members) oneOf(name, text string, words ...string) {
	checkWord(m.faults, m.at(name), text, words...)
}

func checkWord(f *faults, pointer, text string, words ...string) {
	for _, w := range words {
		if text == w {
			return
		}
	}
	f.add(pointer, "must be one of %s", strings.Join(words, ", "))
}
