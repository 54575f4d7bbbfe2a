package mcp

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

// Runner gives the executor of a server's tool. The definition is the
// approved one.
func (p *Pool) Runner(server model.MCPServer, t model.Tool) tool.Runner {
	return &runner{pool: p, server: server, definition: t.Definition}
}

type runner struct {
	pool       *Pool
	server     model.MCPServer
	definition model.ToolDefinition
}

// Prepare has a live session and checks that the server's tool is the
// approved one.
func (r *runner) Prepare(ctx context.Context) (tool.Ready, error) {
	target := r.definition.MCP
	switch {
	case target == nil:
		return nil, fmt.Errorf("%w: the tool has no MCP target", tool.ErrForGood)
	case target.URL != r.server.URL || !slices.Equal(target.Command, r.server.Command):
		return nil, fmt.Errorf("%w: the MCP server %q is another one than when the tool was imported", tool.ErrForGood, r.server.Name)
	}
	e, err := r.pool.acquire(ctx, r.server)
	if err != nil {
		return nil, err
	}
	if err := r.check(ctx, e.session); err != nil {
		r.pool.release(e)
		return nil, err
	}
	return &ready{pool: r.pool, entry: e, tool: target.Tool}, nil
}

// check compares the tool on the server with the approved definition.
func (r *runner) check(ctx context.Context, s *session) error {
	name := r.definition.MCP.Tool
	now, ok, err := s.lookup(ctx, name)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: the MCP server %q has no tool %q any more", tool.ErrForGood, r.server.Name, name)
	}
	schema, schemaErr := canonical(r.definition.InputSchema)
	annotations, annotationsErr := canonical(r.definition.Annotations)
	if schemaErr != nil || annotationsErr != nil || now.Description != r.definition.Description ||
		!bytes.Equal(schema, now.InputSchema) || !bytes.Equal(annotations, now.Annotations) {
		return fmt.Errorf("%w: the MCP server %q describes its tool %q otherwise than it was approved", tool.ErrForGood, r.server.Name, name)
	}
	return nil
}

// lookup finds a tool of the server, listing them if that was not done since
// the session began or the server last said that they changed. Of many that
// find nothing listed, one lists.
func (s *session) lookup(ctx context.Context, name string) (Imported, bool, error) {
	tools, _ := s.known()
	if tools == nil {
		select {
		case s.listing <- struct{}{}:
			defer func() { <-s.listing }()
		case <-ctx.Done():
			return Imported{}, false, ctx.Err()
		}
		var err error
		if tools, err = s.relist(ctx); err != nil {
			return Imported{}, false, err
		}
	}
	t, ok := tools[name]
	return t, ok, nil
}

func (s *session) relist(ctx context.Context) (map[string]Imported, error) {
	tools, changes := s.known()
	if tools != nil {
		return tools, nil
	}
	listed, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	tools = make(map[string]Imported, len(listed))
	for _, t := range listed {
		tools[t.Name] = t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes { // else they changed while they were listed
		s.tools = tools
	}
	return tools, nil
}

func (s *session) known() (tools map[string]Imported, changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools, s.changes
}

type ready struct {
	pool  *Pool
	entry *entry // nil once used or released
	tool  string
}

// Release gives the session back.
func (r *ready) Release() {
	if r.entry != nil {
		r.pool.release(r.entry)
		r.entry = nil
	}
}

// Run calls the tool, once.
func (r *ready) Run(ctx context.Context, call tool.Call) model.Result {
	if r.entry == nil {
		return nothingSent("the prepared session was given back")
	}
	defer r.Release()
	return r.entry.session.call(ctx, r.tool, call)
}
