package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// function is a tool of the registry as the protocol has it.
type function struct {
	name        string
	tool        string
	description string
	schema      json.RawMessage
}

const (
	// maxFunctions is how many the protocol takes.
	maxFunctions = 128
	toolsPage    = 200
)

// tools are the functions that the model may call: what is registered now, or
// of that, what the turn names.
func (a *answering) tools(ctx context.Context) ([]function, error) {
	var out []function
	after := ""
	for {
		page, err := a.store.Tools(ctx, a.turn.Tenant, after, toolsPage)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			after = t.Definition.Name
			if len(a.ask.Tools) == 0 || slices.Contains(a.ask.Tools, after) {
				out = append(out, newFunction(t))
			}
		}
		if len(page) < toolsPage {
			break
		}
	}
	if len(out) > maxFunctions {
		a.log.WarnContext(ctx, "more tools are registered than a model can be told of; name some in the sink",
			"tools", len(out), "told", maxFunctions)
		out = out[:maxFunctions]
	}
	return out, nil
}

func newFunction(t store.ToolRow) function {
	d := t.Definition
	return function{functionName(d.Name), d.Name, d.Description, d.InputSchema}
}

// maxFunctionName is how long the protocol's names may be.
const maxFunctionName = 64

// functionName gives a tool a name that the protocol takes: letters, digits,
// "_" and "-". One that had to be changed ends with a mark of what it was, so
// that no two tools have the same.
func functionName(tool string) string {
	name := []byte(tool)
	for i, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			name[i] = '_'
		}
	}
	if len(name) <= maxFunctionName && string(name) == tool {
		return tool
	}
	sum := sha256.Sum256([]byte(tool))
	mark := "_" + hex.EncodeToString(sum[:4])
	return string(name[:min(len(name), maxFunctionName-len(mark))]) + mark
}

func (f function) param() openai.ChatCompletionToolUnionParam {
	anything := shared.FunctionParameters{"type": "object", "properties": map[string]any{}}
	d := shared.FunctionDefinitionParam{Name: f.name, Parameters: anything}
	if f.description != "" {
		d.Description = param.NewOpt(f.description)
	}
	if len(f.schema) > 0 {
		var schema map[string]any
		numbers := json.NewDecoder(bytes.NewReader(f.schema))
		numbers.UseNumber() // as they stand
		if numbers.Decode(&schema) == nil && schema != nil {
			d.Parameters = schema
		}
	}
	return openai.ChatCompletionFunctionTool(d)
}

// tool is the tool that a function's name means. One that was not offered
// stays as it is, and is refused.
func (r request) tool(name string) string {
	for _, f := range r.tools {
		if f.name == name {
			return f.tool
		}
	}
	return toolName(name)
}

// allows tells whether the tool was offered.
func (r request) allows(tool string) bool {
	return slices.ContainsFunc(r.tools, func(f function) bool { return f.tool == tool })
}

// toolName is a name that a model made up, as far as it can be kept.
func toolName(name string) string {
	if model.CheckID(name) != nil {
		return "unknown"
	}
	return name
}
