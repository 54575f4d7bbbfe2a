package main

import (
	"context"

	"github.com/countersign/countersign/examples/workspace/workspace"
)

// workspaceCmd is the MCP server of the demo's folder, which countersign dev
// registers as a command to run.
type workspaceCmd struct {
	Root string `required:"" type:"existingdir" help:"Folder to serve."`
}

// Run serves until the client goes away.
func (c *workspaceCmd) Run(ctx context.Context) error { return workspace.Serve(ctx, c.Root) }
