package approval

import "strings"

// checkPlain checks a part that is no tool's, as the AI SDK's validation
// does: what it would refuse would make the whole history unreadable to it.
func checkPlain(m members, kind string) {
	switch {
	case kind == "text", kind == "reasoning":
		m.text("text", true)
		if m.has("state") {
			m.oneOf("state", m.text("state", true), "streaming", "done")
		}
	case kind == "file":
		m.text("mediaType", true)
		m.text("url", true)
		m.text("filename", false)
	case kind == "source-url":
		m.text("sourceId", true)
		m.text("url", true)
		m.text("title", false)
	case kind == "source-document":
		m.text("sourceId", true)
		m.text("mediaType", true)
		m.text("title", true)
		m.text("filename", false)
	case kind == "step-start":
	case strings.HasPrefix(kind, reservedPart):
		m.faults.add(m.at("type"), "is a name that Countersign keeps for itself")
	case strings.HasPrefix(kind, "data-"):
		m.text("id", false)
		if !m.has("data") {
			m.faults.add(m.at("data"), "is missing")
		}
	case m.has("type"):
		m.faults.add(m.at("type"), "is no part that both versions of the AI SDK know")
	}
	m.objects("providerMetadata")
}
