package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Prepared is all that a worker needs before it claims a call.
type Prepared struct {
	Call       *model.Call
	Turn       model.TurnID
	Topic      model.TopicID
	Input      []byte
	Waited     time.Duration        // since it was queued, by the database's clock
	Definition model.ToolDefinition // the tool's as it is now; the call runs only if its hash is the call's own
	Current    []byte               // that hash; nil when the tool is gone
	Secrets    model.ToolSecrets
	Server     *model.MCPServer // of an MCP tool
	Policies   []model.Policy   // the tenant's, to ask the denies again
}

// Prepare reads a call for a worker. It writes nothing and decides nothing;
// the claim checks again what matters. Errors: [model.ErrNotFound].
func (s *Store) Prepare(ctx context.Context, tenant model.TenantID, call model.CallID) (Prepared, error) {
	return s.prepare.submit(ctx, tenant, prepareItem(call))
}

type prepareItem model.CallID

func (s *Store) prepareAll(ctx context.Context, tenant model.TenantID, items []prepareItem) ([]outcome[Prepared], error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = string(it)
	}
	p := preparer{
		calls: map[model.CallID]*Prepared{}, tools: map[string]currentTool{},
		servers: map[string]*model.MCPServer{},
	}
	b := &pgx.Batch{}
	b.Queue(selectPreparedCalls, tenant, ids).Query(p.scanCalls)
	b.Queue(selectToolsOfCalls, tenant, ids).Query(p.scanTools)
	b.Queue(selectServersOfCalls, tenant, ids).Query(p.scanServers)
	b.Queue(selectPolicies, tenant).Query(p.scanPolicies)
	if err := s.hot.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	out := make([]outcome[Prepared], len(items))
	for i, it := range items {
		out[i].value, out[i].err = p.assemble(model.CallID(it))
	}
	return out, nil
}

// ofCalls is a set of one column over the calls, for the key of another table.
func ofCalls(column string) string {
	return `any(array(select distinct ` + column + ` from calls where tenant_id = $1 and call_id = any($2::uuid[])))`
}

const selectPreparedCalls = `
	select ` + callColumns + `, topic_id, input,
	       coalesce(extract(epoch from clock_timestamp() - queued_at), 0)::float8
	  from calls
	 where tenant_id = $1 and call_id = any($2::uuid[])`

var (
	selectToolsOfCalls = `
	select t.name, t.hash, t.secrets, d.definition
	  from tools t
	  join tool_definitions d on d.tenant_id = $1 and d.hash = t.hash
	 where t.tenant_id = $1 and t.name = ` + ofCalls("tool")

	selectServersOfCalls = `
	select ` + serverColumns + ` from mcp_servers
	 where tenant_id = $1 and name = ` + ofCalls("server")
)

// preparer joins what the statements found.
type preparer struct {
	calls    map[model.CallID]*Prepared
	tools    map[string]currentTool
	servers  map[string]*model.MCPServer
	policies []model.Policy
}

type currentTool struct{ hash, secrets, definition []byte }

func (p *preparer) scanCalls(rows pgx.Rows) error {
	for rows.Next() {
		var one Prepared
		var seconds float64
		var err error
		if one.Call, one.Turn, err = scanCall(rows, &one.Topic, &one.Input, &seconds); err != nil {
			return err
		}
		one.Waited = time.Duration(seconds * float64(time.Second))
		p.calls[one.Call.ID] = &one
	}
	return rows.Err()
}

func (p *preparer) scanTools(rows pgx.Rows) error {
	var name string
	var t currentTool
	_, err := pgx.ForEachRow(rows, []any{&name, &t.hash, &t.secrets, &t.definition}, func() error {
		p.tools[name] = t
		return nil
	})
	return err
}

func (p *preparer) scanServers(rows pgx.Rows) error {
	list, err := scanServers(rows)
	for i := range list {
		p.servers[list[i].Name] = &list[i]
	}
	return err
}

func (p *preparer) scanPolicies(rows pgx.Rows) (err error) {
	p.policies, err = scanPolicies(rows)
	return err
}

func (p *preparer) assemble(id model.CallID) (Prepared, error) {
	one := p.calls[id]
	if one == nil {
		return Prepared{}, model.ErrNotFound
	}
	c := one.Call
	if tool, ok := p.tools[c.Tool.Name]; ok {
		one.Current = tool.hash
		if err := json.Unmarshal(tool.definition, &one.Definition); err != nil {
			return *one, fmt.Errorf("call %s: its tool's definition cannot be read: %w", id, err)
		}
		if err := json.Unmarshal(tool.secrets, &one.Secrets); err != nil {
			return *one, fmt.Errorf("call %s: its tool's secrets cannot be read: %w", id, err)
		}
	}
	one.Server, one.Policies = p.servers[c.Tool.Server], p.policies
	return *one, nil
}
