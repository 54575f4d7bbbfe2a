package model

import (
	"bytes"
	"context"
	"strings"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
)

// call is a call whose arguments are coming.
type call struct {
	id, theirs string // ours, and the provider's
	tool       string
	arguments  []byte
	whole      bool
}

// begins tells whether a delta begins a call: some providers count all calls
// as the first one and tell them apart by their ids.
func (t *translation) begins(d callDelta) bool {
	c := t.calls[d.index]
	return c == nil || d.id != "" && d.id != c.theirs && d.name != ""
}

// grow takes what a delta adds to a call. The call before it is complete then.
func (t *translation) grow(ctx context.Context, d callDelta) error {
	if t.begins(d) {
		if err := t.start(ctx, d); err != nil {
			return err
		}
	}
	c := t.calls[d.index]
	switch {
	case d.arguments == "":
		return nil
	case c.whole:
		return &Failure{Text: "it went back to a call that it had ended", Kind: "protocol"}
	}
	c.arguments = append(c.arguments, d.arguments...)
	if len(c.arguments) > uistream.MaxInput {
		return nil // refused when it is complete; no more of it is shown
	}
	piece := strings.ToValidUTF8(d.arguments, "\uFFFD")
	return t.send(ctx, uistream.Chunk{Type: uistream.ToolInputDelta, ToolCallID: c.id, InputTextDelta: piece})
}

func (t *translation) start(ctx context.Context, d callDelta) error {
	if err := t.close(ctx); err != nil {
		return err
	}
	if err := t.complete(ctx); err != nil {
		return err
	}
	c := &call{id: t.id(d.id), theirs: d.id, tool: t.request.tool(d.name)}
	t.calls[d.index], t.now = c, c
	t.begun++
	return t.send(ctx, uistream.Chunk{Type: uistream.ToolInputStart, ToolCallID: c.id, ToolName: c.tool})
}

// id is the provider's own id of a call where that can be kept: some begin
// anew with every answer, and ids are unique within a message.
func (t *translation) id(theirs string) string {
	id := theirs
	if model.CheckID(id) != nil || t.request.used[id] {
		id = "call_" + model.NewToken()
	}
	t.request.used[id] = true
	return id
}

// complete ends the call whose arguments were coming: now it is committed.
// One that cannot run is settled at once, so that the model learns why.
func (t *translation) complete(ctx context.Context) error {
	c := t.now
	if c == nil {
		return nil
	}
	t.now, c.whole = nil, true
	input, fault := c.input()
	if fault == "" && !t.request.allows(c.tool) {
		fault = "This tool is none of those that the model may call here. It did not run."
	}
	chunk := uistream.Chunk{Type: uistream.ToolInputAvailable, ToolCallID: c.id, ToolName: c.tool, Input: input}
	if fault != "" {
		chunk.Type, chunk.ErrorText = uistream.ToolInputError, fault
	}
	return t.send(ctx, chunk)
}

// maxDepth is how deep arguments may nest, so that the chunk around them can
// still be read.
const maxDepth = strictjson.MaxDepth - 8

// input is a call's input, or what is wrong with its arguments, which then are
// kept as a text.
func (c *call) input() (input strictjson.Raw, fault string) {
	arguments := bytes.TrimSpace(c.arguments)
	switch {
	case len(arguments) == 0:
		return strictjson.Raw(`{}`), ""
	case len(arguments) > uistream.MaxInput:
		return strictjson.Raw(`""`), "The arguments are too large. The tool did not run."
	case strictjson.Valid(arguments, maxDepth) != nil:
		fault = "The arguments are not valid JSON. The tool did not run."
	case uistream.Poisonous(arguments):
		fault = "The arguments have a member __proto__ or constructor, which nothing here takes. The tool did not run."
	default:
		return arguments, ""
	}
	text, err := strictjson.Marshal(strings.ToValidUTF8(string(arguments), "\uFFFD"))
	if err != nil || len(text) > uistream.MaxInput {
		text = strictjson.Raw(`""`)
	}
	return text, fault
}
