package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Prepared is all that a worker needs before it claims a call.
type Prepared struct {
	Call        *model.Call
	Turn        model.TurnID
	Topic       model.TopicID
	Input       []byte
	Definition  model.ToolDefinition // that of the call, which is what runs
	Current     []byte               // the hash of the tool as it is now; nil when it is gone
	Secrets     model.ToolSecrets
	Server      *model.MCPServer // of an MCP tool
	Policies    []model.Policy   // the tenant's, to ask the denies again
	Traceparent string
}

// Prepare reads a call for a worker. It writes nothing and decides nothing;
// the claim checks again what matters. Errors: [model.ErrNotFound].
func (s *Store) Prepare(ctx context.Context, tenant model.TenantID, call model.CallID) (Prepared, error) {
	return s.prepare.submit(ctx, tenant, prepareItem(call))
}

type prepareItem model.CallID

func (s *Store) prepareAll(ctx context.Context, tenant model.TenantID, items []prepareItem) ([]outcome[Prepared], error) {
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = string(it)
	}
	found := map[model.CallID]Prepared{}
	servers := map[string]*model.MCPServer{}
	var policies []model.Policy
	b := &pgx.Batch{}
	b.Queue(selectPrepared, tenant, ids).Query(func(rows pgx.Rows) error { return scanPrepared(rows, found) })
	b.Queue(selectServersOfCalls, tenant, ids).Query(func(rows pgx.Rows) error {
		list, err := scanServers(rows)
		for i := range list {
			servers[list[i].Name] = &list[i]
		}
		return err
	})
	b.Queue(selectPolicies, tenant).Query(func(rows pgx.Rows) (err error) {
		policies, err = scanPolicies(rows)
		return err
	})
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	out := make([]outcome[Prepared], len(items))
	for i, it := range items {
		p, ok := found[model.CallID(it)]
		if !ok {
			out[i].err = model.ErrNotFound
			continue
		}
		p.Policies, p.Server = policies, servers[p.Call.Tool.Server]
		out[i].value = p
	}
	return out, nil
}

const selectPrepared = `
	select ` + callColumns + `,
	       c.topic_id, c.input, d.definition, t.hash, t.secrets, n.traceparent
	  from calls c
	  join turns n on n.tenant_id = $1 and n.turn_id = c.turn_id and n.turn_id = any(array(
	         select turn_id from calls where tenant_id = $1 and call_id = any($2::text[]::uuid[])))
	  left join approvals a on a.tenant_id = $1 and a.call_id = c.call_id and a.call_id = any($2::text[]::uuid[])
	  left join tool_definitions d on d.tenant_id = c.tenant_id and d.hash = c.definition
	  left join tools t on t.tenant_id = c.tenant_id and t.name = c.tool
	 where c.tenant_id = $1 and c.call_id = any($2::text[]::uuid[])`

const selectServersOfCalls = `
	select ` + serverColumns + `
	  from mcp_servers
	 where tenant_id = $1 and name in (select server from calls
	                                    where tenant_id = $1 and call_id = any($2::text[]::uuid[]) and server <> '')`

func scanPrepared(rows pgx.Rows, into map[model.CallID]Prepared) error {
	for rows.Next() {
		var p Prepared
		var definition, secrets []byte
		var err error
		p.Call, p.Turn, err = scanCallWith(rows, &p.Topic, &p.Input, &definition, &p.Current, &secrets, &p.Traceparent)
		if err != nil {
			return err
		}
		if definition != nil {
			if err := json.Unmarshal(definition, &p.Definition); err != nil {
				return fmt.Errorf("call %s: its definition cannot be read: %w", p.Call.ID, err)
			}
		}
		if secrets != nil {
			if err := json.Unmarshal(secrets, &p.Secrets); err != nil {
				return fmt.Errorf("call %s: its tool's secrets cannot be read: %w", p.Call.ID, err)
			}
		}
		into[p.Call.ID] = p
	}
	return rows.Err()
}
