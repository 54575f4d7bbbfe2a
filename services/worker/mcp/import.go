package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/pkg/model"
)

const (
	// maxTools and maxPages bound what one server can make us import.
	maxTools = 2000
	maxPages = 200
)

// Imported is a tool as its server describes it. The JSON in it is canonical
// (no white space, keys sorted, numbers as written), so that equal
// descriptions are equal bytes.
type Imported struct {
	Name        string
	Description string
	InputSchema json.RawMessage
	Annotations json.RawMessage // absent where the server gives none
	Effect      model.Effect
}

// Definition is the tool's definition on that server.
func (i Imported) Definition(server model.MCPServer) model.ToolDefinition {
	d := model.ToolDefinition{
		Name:        model.ToolName(server.Name, i.Name),
		Server:      server.Name,
		Description: i.Description,
		InputSchema: i.InputSchema,
		Annotations: i.Annotations,
		Effect:      i.Effect,
		Executor:    model.ExecutorWorker,
		Timeout:     model.Duration(model.DefaultToolTimeout),
		MaxAttempts: model.DefaultMaxAttempts,
		MCP:         &model.MCPTarget{Tool: i.Name, Command: server.Command, URL: server.URL},
	}
	for name := range server.Env {
		d.MCP.EnvNames = append(d.MCP.EnvNames, name)
	}
	slices.Sort(d.MCP.EnvNames)
	return d
}

// List asks the server for its tools, all pages, over a connection of its
// own, so that it also tells whether the configuration works. Tools whose
// name a person could not read are left out. Errors are as for preparation.
func (p *Pool) List(ctx context.Context, server model.MCPServer) ([]Imported, error) {
	d := p.dialer(server)
	d.changed = func(*session) {}
	s, err := d.dial(ctx, server)
	if err != nil {
		return nil, err
	}
	defer s.close(false)
	return s.list(ctx)
}

// list reads all pages of tools/list.
func (s *session) list(ctx context.Context) ([]Imported, error) {
	var tools []Imported
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, next, err := s.page(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("list the server's tools: %w", err)
		}
		tools = append(tools, page...)
		switch {
		case len(tools) > maxTools:
			return nil, fmt.Errorf("the server has more than %d tools", maxTools)
		case next == "":
			return tools, nil
		}
		params = &sdk.ListToolsParams{Cursor: next}
	}
	return nil, fmt.Errorf("the server's list of tools does not end within %d pages", maxPages)
}

// page reads one page. The SDK says which tools are well-formed; their
// descriptions come from the raw answer, unless the SDK answered from its
// cache.
func (s *session) page(ctx context.Context, params *sdk.ListToolsParams) ([]Imported, string, error) {
	f := &flight{}
	result, err := s.client.ListTools(f.attach(ctx), params)
	raw, _, _ := f.land()
	if err != nil {
		return nil, "", err
	}
	if raw == nil {
		if raw, err = json.Marshal(result); err != nil {
			return nil, "", err
		}
	}
	var listed struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if err := json.Unmarshal(raw, &listed); err != nil {
		return nil, "", err
	}
	wellFormed := map[string]bool{}
	for _, t := range result.Tools {
		wellFormed[t.Name] = true
	}
	var page []Imported
	for _, data := range listed.Tools {
		t, err := readTool(data)
		if err == nil && wellFormed[t.Name] {
			wellFormed[t.Name] = false // the first of a name counts
			page = append(page, t)
		}
	}
	return page, result.NextCursor, nil
}

func readTool(data []byte) (Imported, error) {
	fields := map[string]json.RawMessage{} // exact keys: structs fold case
	if err := json.Unmarshal(data, &fields); err != nil {
		return Imported{}, err
	}
	var t Imported
	if err := json.Unmarshal(fields["name"], &t.Name); err != nil {
		return Imported{}, err
	}
	if err := model.CheckID(t.Name); err != nil {
		return Imported{}, err
	}
	if description := fields["description"]; description != nil {
		if err := json.Unmarshal(description, &t.Description); err != nil {
			return Imported{}, err
		}
	}
	var err error
	if t.InputSchema, err = canonical(fields["inputSchema"]); err != nil {
		return Imported{}, err
	}
	if t.Annotations, err = canonical(fields["annotations"]); err != nil {
		return Imported{}, err
	}
	t.Effect = effectOf(t.Annotations)
	return t, nil
}

// effectOf reads the hints. What says nothing is unsafe.
func effectOf(annotations []byte) model.Effect {
	hints := map[string]any{}
	_ = json.Unmarshal(annotations, &hints)
	switch {
	case hints["readOnlyHint"] == true:
		return model.EffectRead
	case hints["idempotentHint"] == true:
		return model.EffectIdempotent
	}
	return model.EffectUnsafe
}

// canonical sorts the keys and drops the white space; numbers stay as they
// are written. Absent and null are absent.
func canonical(data []byte) (json.RawMessage, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one JSON value")
	}
	return json.Marshal(v)
}
