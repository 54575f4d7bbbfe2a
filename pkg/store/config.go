package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/model"
)

// Configuration is what a tenant's people set: tools, servers, policies, keys.
// Each write is one transaction with its audit row.

// Catalog is what judging a registration needs: the tools that it names, the
// servers that these belong to, and the tenant's policies.
type Catalog struct {
	Tools    map[string]ToolRow
	Servers  map[string]model.MCPServer
	Policies []model.Policy
}

// ToolRow is a tool with the hash and the bytes of its definition.
type ToolRow struct {
	model.Tool
	Hash      []byte
	Stored    json.RawMessage
	UpdatedAt time.Time
}

// Catalog reads tools by name, with what belongs to them.
func (s *Store) Catalog(ctx context.Context, tenant model.TenantID, names []string) (Catalog, error) {
	c := Catalog{Tools: map[string]ToolRow{}, Servers: map[string]model.MCPServer{}}
	b := &pgx.Batch{}
	b.Queue(selectToolsByName, tenant, names).Query(func(rows pgx.Rows) error {
		tools, err := pgx.CollectRows(rows, scanTool)
		for _, t := range tools {
			c.Tools[t.Definition.Name] = t
		}
		return err
	})
	b.Queue(selectServersOfTools, tenant, names).Query(func(rows pgx.Rows) error {
		servers, err := scanServers(rows)
		for _, v := range servers {
			c.Servers[v.Name] = v
		}
		return err
	})
	b.Queue(selectPolicies, tenant).Query(func(rows pgx.Rows) (err error) {
		c.Policies, err = scanPolicies(rows)
		return err
	})
	return c, unavailable(s.pool.SendBatch(ctx, b).Close())
}

const toolColumns = `
	select d.definition, t.hash, t.secrets, t.updated_at
	  from tools t
	  join tool_definitions d using (tenant_id, hash)
	 where t.tenant_id = $1`

const selectToolsByName = toolColumns + ` and t.name = any($2::text[])`

const selectServersOfTools = `
	select ` + serverColumns + `
	  from mcp_servers
	 where tenant_id = $1 and name in (select server from tools where tenant_id = $1 and name = any($2::text[]))`

func scanTool(row pgx.CollectableRow) (t ToolRow, err error) {
	var secrets []byte
	if err := row.Scan(&t.Stored, &t.Hash, &secrets, &t.UpdatedAt); err != nil {
		return t, err
	}
	if err := json.Unmarshal(t.Stored, &t.Definition); err != nil {
		return t, fmt.Errorf("a tool's definition cannot be read: %w", err)
	}
	return t, json.Unmarshal(secrets, &t.Secrets)
}

// Tools lists tools by name, after one, at most limit.
func (s *Store) Tools(ctx context.Context, tenant model.TenantID, after string, limit int) ([]ToolRow, error) {
	rows, err := s.pool.Query(ctx, toolColumns+` and t.name > $2 order by t.name limit $3`, tenant, after, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, scanTool)
	return out, unavailable(err)
}

// Tool reads one tool. Errors: [model.ErrNotFound].
func (s *Store) Tool(ctx context.Context, tenant model.TenantID, name string) (ToolRow, error) {
	c, err := s.Catalog(ctx, tenant, []string{name})
	if err != nil {
		return ToolRow{}, err
	}
	t, ok := c.Tools[name]
	if !ok {
		return ToolRow{}, model.ErrNotFound
	}
	return t, nil
}

// PutTool makes or replaces a tool that belongs to no server, and reports
// whether it is new.
func (s *Store) PutTool(ctx context.Context, t model.Tool, actor, channel string) (created bool, err error) {
	err = s.configure(ctx, t.Tenant, actor, channel, "tool.put", t.Definition.Name, func(b *pgx.Batch) error {
		return queueTool(b, t, &created)
	})
	return created, err
}

func queueTool(b *pgx.Batch, t model.Tool, created *bool) error {
	stored, hash, err := t.Definition.Encode()
	if err != nil {
		return err
	}
	secrets, err := json.Marshal(t.Secrets)
	if err != nil {
		return err
	}
	b.Queue(insertDefinition, t.Tenant, hash, stored)
	b.Queue(upsertTool, t.Tenant, t.Definition.Name, t.Definition.Server, hash, string(secrets)).QueryRow(func(row pgx.Row) error {
		return row.Scan(created)
	})
	return nil
}

const insertDefinition = `
	insert into tool_definitions (tenant_id, hash, definition) values ($1, $2, $3) on conflict do nothing`

const upsertTool = `
	insert into tools (tenant_id, name, server, hash, secrets)
	values ($1, $2, nullif($3, ''), $4, $5)
	    on conflict (tenant_id, name) do update
	   set server = excluded.server, hash = excluded.hash, secrets = excluded.secrets, updated_at = clock_timestamp()
	returning xmax = 0`

// DeleteTool removes a tool; its definition stays, for what was approved of
// it. Errors: [model.ErrNotFound].
func (s *Store) DeleteTool(ctx context.Context, tenant model.TenantID, name, actor, channel string) error {
	return s.remove(ctx, tenant, actor, channel, "tool.deleted", name,
		`delete from tools where tenant_id = $1 and name = $2 and server is null`)
}

// Policies lists a tenant's policies by name.
func (s *Store) Policies(ctx context.Context, tenant model.TenantID) ([]model.Policy, error) {
	rows, err := s.pool.Query(ctx, selectPolicies, tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := scanPolicies(rows)
	return out, unavailable(err)
}

const selectPolicies = `select name, rule from policies where tenant_id = $1 order by name`

func scanPolicies(rows pgx.Rows) ([]model.Policy, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p model.Policy, err error) {
		var rule []byte
		var name string
		if err := row.Scan(&name, &rule); err != nil {
			return p, err
		}
		err = json.Unmarshal(rule, &p)
		p.Name = name
		return p, err
	})
}

// PutPolicy makes or replaces a policy, and reports whether it is new.
func (s *Store) PutPolicy(ctx context.Context, tenant model.TenantID, p model.Policy, actor, channel string) (created bool, err error) {
	rule, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	err = s.configure(ctx, tenant, actor, channel, "policy.put", p.Name, func(b *pgx.Batch) error {
		b.Queue(upsertPolicy, tenant, p.Name, string(rule)).QueryRow(func(row pgx.Row) error { return row.Scan(&created) })
		return nil
	})
	return created, err
}

const upsertPolicy = `
	insert into policies (tenant_id, name, rule) values ($1, $2, $3)
	    on conflict (tenant_id, name) do update set rule = excluded.rule, updated_at = clock_timestamp()
	returning xmax = 0`

// DeletePolicy removes a policy. Errors: [model.ErrNotFound].
func (s *Store) DeletePolicy(ctx context.Context, tenant model.TenantID, name, actor, channel string) error {
	return s.remove(ctx, tenant, actor, channel, "policy.deleted", name,
		`delete from policies where tenant_id = $1 and name = $2`)
}

// configure is one write to the configuration together with its audit row.
func (s *Store) configure(
	ctx context.Context, tenant model.TenantID, actor, channel, action, name string, write func(*pgx.Batch) error,
) error {
	err := transact(ctx, s.pool, action, func(ctx context.Context, t *tx) error {
		var failed error
		b := func(b *pgx.Batch) {
			if failed = write(b); failed != nil {
				b.Queue("rollback")
				return
			}
			insertAudit(b, tenant, []model.AuditRecord{{At: time.Now(), Actor: actor, Action: action, Channel: channel, Detail: name}})
		}
		if err := t.commit(ctx, b); err != nil {
			return err
		}
		return failed
	})
	return unavailable(err)
}

// remove deletes one row of the configuration.
func (s *Store) remove(ctx context.Context, tenant model.TenantID, actor, channel, action, name, statement string) error {
	return s.amend(ctx, tenant, actor, channel, action, name, statement, tenant, name)
}

// amend changes one row of the configuration; one that is not there is
// [model.ErrNotFound], and nothing is written.
func (s *Store) amend(
	ctx context.Context, tenant model.TenantID, actor, channel, action, name, statement string, args ...any,
) error {
	found := false
	err := transact(ctx, s.pool, action, func(ctx context.Context, t *tx) error {
		var n int64
		err := t.trip(ctx, func(b *pgx.Batch) {
			b.Queue(statement, args...).Exec(func(tag pgconn.CommandTag) error {
				n = tag.RowsAffected()
				return nil
			})
		})
		if found = n > 0; err != nil || !found {
			return err
		}
		return t.commit(ctx, func(b *pgx.Batch) {
			insertAudit(b, tenant, []model.AuditRecord{{At: time.Now(), Actor: actor, Action: action, Channel: channel, Detail: name}})
		})
	})
	if err == nil && !found {
		return model.ErrNotFound
	}
	return unavailable(err)
}

// isNoRows tells whether a single row was looked for in vain.
func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
