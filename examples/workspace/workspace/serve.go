package workspace

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve serves a folder over stdin and stdout until the client goes away or
// ctx ends.
func Serve(ctx context.Context, folder string) error {
	server, closeFolder, err := NewServer(folder)
	if err != nil {
		return err
	}
	return errors.Join(server.Run(ctx, &mcp.StdioTransport{}), closeFolder())
}
