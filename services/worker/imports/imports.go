// Package imports keeps the tools of MCP servers in the registry what the
// servers say they are. An api node only writes a server's row; a worker,
// which is where servers are reached from, lists its tools and imports them
// under the row's revision.
package imports

import (
	"context"
	"log/slog"
	"time"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/mcp"
)

// Store is where servers and tools are.
type Store interface {
	UnimportedServers(ctx context.Context, limit int) ([]model.MCPServer, error)
	ImportTools(ctx context.Context, m model.MCPServer, tools []model.Tool) error
	ImportFailed(ctx context.Context, m model.MCPServer, reason string) error
	MCPServer(ctx context.Context, tenant model.TenantID, name string) (model.MCPServer, error)
}

// Lister asks a server for its tools.
type Lister interface {
	List(ctx context.Context, server model.MCPServer) ([]mcp.Imported, error)
}

// Importer imports tools.
type Importer struct {
	store   Store
	servers Lister
	log     *slog.Logger
	changed chan changed
}

type changed struct {
	tenant model.TenantID
	server string
}

const (
	every   = time.Second
	timeout = 30 * time.Second
	atOnce  = 10
)

// New makes an importer.
func New(s Store, l Lister, log *slog.Logger) *Importer {
	return &Importer{s, l, log, make(chan changed, 64)}
}

// Changed says that a server's tools changed. It never blocks; what does not
// fit is noticed when a call of the tool is prepared.
func (i *Importer) Changed(tenant model.TenantID, server string) {
	select {
	case i.changed <- changed{tenant, server}:
	default:
	}
}

// Run imports what is to be imported until ctx ends.
func (i *Importer) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-i.changed:
			i.again(ctx, c)
		case <-tick.C:
			i.pending(ctx)
		}
	}
}

func (i *Importer) pending(ctx context.Context) {
	servers, err := i.store.UnimportedServers(ctx, atOnce)
	if err != nil {
		if ctx.Err() == nil {
			i.log.WarnContext(ctx, "MCP servers could not be read", "err", err)
		}
		return
	}
	for _, s := range servers {
		i.one(ctx, s)
	}
}

func (i *Importer) again(ctx context.Context, c changed) {
	server, err := i.store.MCPServer(ctx, c.tenant, c.server)
	if err == nil {
		i.one(ctx, server)
	}
}

func (i *Importer) one(ctx context.Context, server model.MCPServer) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := i.servers.List(ctx, server)
	if err != nil {
		i.log.WarnContext(ctx, "an MCP server's tools could not be listed", "tenant", server.Tenant, "server", server.Name, "err", err)
		err = i.store.ImportFailed(context.WithoutCancel(ctx), server, err.Error())
	} else {
		tools := make([]model.Tool, len(found))
		for n, f := range found {
			tools[n] = model.Tool{Tenant: server.Tenant, Definition: f.Definition(server)}
		}
		if err = failpoint.Hit(ctx, failpoint.ImportBefore); err == nil {
			err = i.store.ImportTools(ctx, server, tools)
		}
	}
	if err != nil && ctx.Err() == nil {
		i.log.WarnContext(ctx, "an import could not be recorded", "tenant", server.Tenant, "server", server.Name, "err", err)
	}
}
