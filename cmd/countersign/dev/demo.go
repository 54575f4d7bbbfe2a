package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/pkg/client"
)

// workspaceFiles are what the demo's conversation is about.
var workspaceFiles = map[string]string{
	"README.txt":       "A small workspace to play with. Everything in it may be deleted.\n",
	"notes/plan.md":    "# Plan\n\n- keep the notes\n- throw away last year's logs\n",
	"logs/2024-11.log": "2024-11-30 23:59:58 rotated\n",
	"logs/2024-12.log": "2024-12-31 23:59:59 rotated\n",
	"logs/2026-11.log": "2026-11-30 08:00:01 started\n2026-11-30 08:00:02 ready\n",
}

// workspaceServer is the name of the MCP server that reaches the workspace.
const workspaceServer = "workspace"

// setUpDemo makes the workspace and registers the MCP server that reaches it:
// this very program, over stdio, as a real server would be.
func setUpDemo(ctx context.Context, o Options, state devstate.State) error {
	root := filepath.Join(o.Dir, "workspace")
	if err := makeWorkspace(root); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := client.New(state.URL, state.APIKey)
	_, err = c.PutMCPServer(ctx, workspaceServer, client.MCPServer{Command: []string{self, "workspace", "--root", root}, AutoApprove: "read"})
	if err != nil {
		return fmt.Errorf("register the demo's workspace: %w", err)
	}
	return nil
}

// makeWorkspace writes the files of a first start; what a person did to them
// since is left alone.
func makeWorkspace(root string) error {
	if _, err := os.Stat(root); err == nil {
		return nil
	}
	for name, content := range workspaceFiles {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
