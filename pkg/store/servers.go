package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// serverConfig and serverSecrets are how an MCP server stands in its columns:
// what may be shown, and what only goes to the server.
type serverConfig struct {
	Command  []string          `json:"command,omitempty"`
	URL      string            `json:"url,omitempty"`
	Auto     model.AutoApprove `json:"autoApprove"`
	Disabled []string          `json:"disabledAutoApproveTools"`
}

type serverSecrets struct {
	Env     map[string]string `json:"env,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

const serverColumns = `name, config, secrets, revision, imported_revision, import_error`

func scanServers(rows pgx.Rows) ([]model.MCPServer, error) { return pgx.CollectRows(rows, scanServer) }

func scanServer(row pgx.CollectableRow) (m model.MCPServer, err error) { return scanServerWith(row) }

func scanServerWith(row pgx.Row, before ...any) (m model.MCPServer, err error) {
	var config, secrets []byte
	err = row.Scan(append(before, &m.Name, &config, &secrets, &m.Revision, &m.ImportedRevision, &m.ImportError)...)
	if err != nil {
		return m, err
	}
	var c serverConfig
	var s serverSecrets
	if err := json.Unmarshal(config, &c); err != nil {
		return m, fmt.Errorf("MCP server %s: its configuration cannot be read: %w", m.Name, err)
	}
	if err := json.Unmarshal(secrets, &s); err != nil {
		return m, fmt.Errorf("MCP server %s: its secrets cannot be read: %w", m.Name, err)
	}
	m.Command, m.URL, m.AutoApprove, m.DisabledAutoApproveTool = c.Command, c.URL, c.Auto, c.Disabled
	m.Env, m.Headers = s.Env, s.Headers
	return m, nil
}

// MCPServer reads one MCP server. Errors: [model.ErrNotFound].
func (s *Store) MCPServer(ctx context.Context, tenant model.TenantID, name string) (model.MCPServer, error) {
	m, err := scanServerWith(s.pool.QueryRow(ctx,
		`select `+serverColumns+` from mcp_servers where tenant_id = $1 and name = $2`, tenant, name))
	if isNoRows(err) {
		return m, model.ErrNotFound
	}
	m.Tenant = tenant
	return m, unavailable(err)
}

// MCPServers lists a tenant's MCP servers by name.
func (s *Store) MCPServers(ctx context.Context, tenant model.TenantID) ([]model.MCPServer, error) {
	rows, err := s.pool.Query(ctx, `select `+serverColumns+` from mcp_servers where tenant_id = $1 order by name`, tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := scanServers(rows)
	return out, unavailable(err)
}

// PutMCPServer makes or changes an MCP server. Its tools are imported by a
// worker afterwards, which knows by the revision that it has to. It returns
// the new revision and whether the server is new.
func (s *Store) PutMCPServer(ctx context.Context, m model.MCPServer, actor, channel string) (revision int64, created bool, err error) {
	config, err := json.Marshal(serverConfig{m.Command, m.URL, m.AutoApprove, m.DisabledAutoApproveTool})
	if err != nil {
		return 0, false, err
	}
	secrets, err := json.Marshal(serverSecrets{m.Env, m.Headers})
	if err != nil {
		return 0, false, err
	}
	err = s.configure(ctx, m.Tenant, actor, channel, "mcp-server.put", m.Name, func(b *pgx.Batch) error {
		b.Queue(upsertServer, m.Tenant, m.Name, string(config), string(secrets)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&revision, &created)
		})
		return nil
	})
	return revision, created, err
}

const upsertServer = `
	insert into mcp_servers (tenant_id, name, config, secrets) values ($1, $2, $3, $4)
	    on conflict (tenant_id, name) do update
	   set config = excluded.config, secrets = excluded.secrets, revision = mcp_servers.revision + 1, import_error = '',
	       updated_at = clock_timestamp()
	returning revision, xmax = 0`

// DeleteMCPServer removes an MCP server and its tools. Errors:
// [model.ErrNotFound].
func (s *Store) DeleteMCPServer(ctx context.Context, tenant model.TenantID, name, actor, channel string) error {
	return s.remove(ctx, tenant, actor, channel, "mcp-server.deleted", name,
		`delete from mcp_servers where tenant_id = $1 and name = $2`)
}

// UnimportedServers finds MCP servers whose tools are not imported in their
// present revision, and those whose import failed a minute ago.
func (s *Store) UnimportedServers(ctx context.Context, limit int) ([]model.MCPServer, error) {
	rows, err := s.pool.Query(ctx, `
		select tenant_id, `+serverColumns+`
		  from mcp_servers
		 where imported_revision < revision and (import_error = '' or imported_at < clock_timestamp() - interval '1 minute')
		 order by updated_at
		 limit $1`, limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m model.MCPServer, err error) {
		var tenant model.TenantID
		m, err = scanServerWith(row, &tenant)
		m.Tenant = tenant
		return m, err
	})
	return out, unavailable(err)
}

// ImportTools replaces an MCP server's tools by what it lists at a revision;
// a server that was changed meanwhile is left for the next import.
func (s *Store) ImportTools(ctx context.Context, m model.MCPServer, tools []model.Tool) error {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Definition.Name
	}
	err := transact(ctx, s.pool, "import tools", func(ctx context.Context, t *tx) error {
		var revision int64
		err := t.trip(ctx, func(b *pgx.Batch) {
			b.Queue(lockServer, m.Tenant, m.Name).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					if err := rows.Scan(&revision); err != nil {
						return err
					}
				}
				return rows.Err()
			})
		})
		if err != nil || revision != m.Revision {
			return err
		}
		var failed error
		err = t.commit(ctx, func(b *pgx.Batch) {
			b.Queue(`delete from tools where tenant_id = $1 and server = $2 and name <> all($3::text[])`, m.Tenant, m.Name, names)
			for _, tool := range tools {
				if failed = queueTool(b, tool, new(bool)); failed != nil {
					b.Queue("rollback")
					return
				}
			}
			b.Queue(markImported, m.Tenant, m.Name, m.Revision, "")
			insertAudit(b, m.Tenant, []model.AuditRecord{{
				At: time.Now(), Actor: "countersign", Action: "mcp-server.imported", Detail: fmt.Sprintf("%s: %d tools", m.Name, len(tools)),
			}})
		})
		return errors.Join(failed, err)
	})
	return unavailable(err)
}

const lockServer = `
	select revision from mcp_servers
	 where tenant_id = $1 and name = $2
	   for no key update`

const markImported = `
	update mcp_servers
	   set imported_revision = case when $4 = '' then $3 else imported_revision end,
	       imported_at = clock_timestamp(),
	       import_error = $4
	 where tenant_id = $1 and name = $2 and revision = $3`

// ImportFailed records why an MCP server's tools could not be listed; it is
// tried again.
func (s *Store) ImportFailed(ctx context.Context, m model.MCPServer, reason string) error {
	_, err := s.pool.Exec(ctx, markImported, m.Tenant, m.Name, m.Revision, storable(reason))
	return unavailable(err)
}
