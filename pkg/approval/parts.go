package approval

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
)

// The bounds of one turn.
const (
	MaxCalls = 64
	MaxInput = 256 << 10 // bytes of one call's input
	MaxParts = 1000
)

const stepStart = `{"type":"step-start"}`

// notePart is the type of the parts in which the model is told of edits;
// names that begin like it are ours alone.
const (
	notePart     = "data-countersign-note"
	reservedPart = "data-countersign"
)

// The types of tool parts: the tool's name follows the prefix.
const (
	toolPrefix  = "tool-"
	dynamicTool = "dynamic-tool"
)

func isToolPart(kind string) bool { return kind == dynamicTool || strings.HasPrefix(kind, toolPrefix) }

// part is one part of a turn, read.
type part struct {
	raw  strictjson.Raw
	kind string
	call *toolCall // of a part that makes a call
}

// toolCall is a tool part that makes a call.
type toolCall struct {
	pointer string
	id      string
	tool    string
	dynamic bool
	input   strictjson.Raw
	extra   strictjson.Raw
	refused string // not "": the model's side says why the call cannot run
}

// readParts reads a turn's parts and finds what is wrong with them. The first
// one it returns is always a step-start. Of parts that a stream made, one that
// is over is a call whose input did not parse: no stream brings the output of
// a call.
func readParts(f *faults, raws []strictjson.Raw, streamed bool) []part {
	if len(raws) > MaxParts {
		f.add("/parts", "must not be more than %d", MaxParts)
		return nil
	}
	r := reader{faults: f, ids: map[string]bool{}, streamed: streamed}
	out := []part{{raw: strictjson.Raw(stepStart), kind: "step-start"}}
	for i, raw := range raws {
		if raw == nil { // the place of a call whose input is still streaming
			out = append(out, part{})
			continue
		}
		pointer := fmt.Sprintf("/parts/%d", i)
		p, ok := r.part(pointer, raw)
		switch {
		case !ok:
			continue
		case p.kind == "step-start" && i == 0:
			out[0] = p
			continue
		case p.kind == "step-start":
			f.add(pointer, "begins another step: a turn is one step, register the next one with continues")
			continue
		}
		out = append(out, p)
	}
	if r.calls > MaxCalls {
		f.add("/parts", "must not make more than %d calls", MaxCalls)
	}
	return out
}

type reader struct {
	*faults
	ids      map[string]bool
	calls    int
	tools    bool // a tool part that is not the provider's stands before
	streamed bool
}

func (r *reader) part(pointer string, raw strictjson.Raw) (part, bool) {
	m, ok := readMembers(r.faults, pointer, raw)
	if !ok {
		return part{}, false
	}
	kind := m.text("type", true)
	p := part{raw: raw, kind: kind}
	if isToolPart(kind) {
		name, static := strings.CutPrefix(kind, toolPrefix)
		p.call = r.tool(m, name, !static)
		return p, true
	}
	if kind == "text" && r.tools {
		r.add(pointer, "is text after a tool part; within a turn text comes first")
	}
	checkPlain(m, kind)
	return p, true
}

// tool reads a tool part; it returns nil for one that is history.
func (r *reader) tool(m members, name string, dynamic bool) *toolCall {
	if dynamic {
		name = m.id("toolName")
	} else {
		r.check(m.at("type"), model.CheckID(name))
	}
	id := m.id("toolCallId")
	if r.ids[id] {
		r.add(m.at("toolCallId"), "is used twice in this turn")
	}
	r.ids[id] = true
	if m.has("approval") {
		r.add(m.at("approval"), "must not be sent: approvals are made here and come from nobody else")
	}
	extra := r.extra(m)
	provider := m.flag("providerExecuted")
	r.tools = r.tools || !provider
	state := m.text("state", true)
	if r.streamed && !provider && state == string(model.CallOutputError) {
		r.calls++
		return &toolCall{pointer: m.pointer, id: id, tool: name, dynamic: dynamic, input: r.input(m), extra: extra, refused: m.text("errorText", true)}
	}
	if provider || state == string(model.CallOutputAvailable) || state == string(model.CallOutputError) {
		r.history(m, state)
		return nil
	}
	if state != string(model.CallInputAvailable) {
		r.add(m.at("state"), "must be input-available for a call, or output-available or output-error for one that is over")
		return nil
	}
	r.calls++
	return &toolCall{pointer: m.pointer, id: id, tool: name, dynamic: dynamic, input: r.input(m), extra: extra}
}

func (r *reader) input(m members) strictjson.Raw {
	input := m.values["input"]
	switch {
	case input == nil:
		r.add(m.at("input"), "is missing")
	case len(input) > MaxInput:
		r.add(m.at("input"), "has %d bytes; at most %d are allowed", len(input), MaxInput)
	}
	return input
}

// history checks a tool part that is over, or that the model's provider runs.
func (r *reader) history(m members, state string) {
	switch model.CallState(state) {
	case model.CallOutputAvailable:
		if !m.has("output") {
			r.add(m.at("output"), "is missing")
		}
	case model.CallOutputError:
		m.text("errorText", true)
	case model.CallInputAvailable:
		r.input(m)
	default:
		r.add(m.at("state"), "must be input-available, output-available or output-error")
	}
	if theirs := m.values["toolMetadata"]; isObject(theirs) {
		var metadata map[string]strictjson.Raw
		if strictjson.Unmarshal(theirs, &metadata) == nil && metadata["countersign"] != nil {
			r.add(m.at("toolMetadata")+"/countersign", "must not be sent: it says what Countersign did")
		}
	}
}

// extra collects the members that a call's row does not say itself.
func (r *reader) extra(m members) strictjson.Raw {
	rest := map[string]strictjson.Raw{}
	for name, value := range m.values {
		switch name {
		case "type", "toolName", "toolCallId", "state", "input", "approval", "output", "errorText":
		default:
			rest[name] = value
		}
	}
	if len(rest) == 0 {
		return nil
	}
	out, err := strictjson.Marshal(rest)
	if err == nil {
		err = uimessage.CheckExtra(out)
	}
	r.check(m.pointer, err)
	return out
}
