package workspace

import (
	"context"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewServer makes the server of a folder, which must exist. Call it once for
// each way it is served; close the folder with the returned function when the
// server is no longer used.
func NewServer(folder string) (server *mcp.Server, closeFolder func() error, err error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, nil, err
	}
	files := &files{root: root}
	server = mcp.NewServer(&mcp.Implementation{Name: "workspace", Version: "1"}, nil)
	yes, no := true, false
	mcp.AddTool(server, &mcp.Tool{
		Name: "read_file", Description: "Read a text file of the workspace.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, tool(files.read))
	mcp.AddTool(server, &mcp.Tool{
		Name: "list_files", Description: "List the files of the workspace, or of a folder in it.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, tool(files.list))
	mcp.AddTool(server, &mcp.Tool{
		Name: "write_file", Description: "Write a text file of the workspace, replacing what it held.",
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: &yes, OpenWorldHint: &no},
	}, tool(files.write))
	mcp.AddTool(server, &mcp.Tool{
		Name: "delete_file", Description: "Delete a file of the workspace. It cannot be brought back.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
	}, tool(files.remove))
	return server, root.Close, nil
}

// tool adapts a function from input to text; its error is the tool's own
// answer (isError), which the model is told.
func tool[In any](f func(In) (string, error)) mcp.ToolHandlerFor[In, any] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		text, err := f(in)
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
}
