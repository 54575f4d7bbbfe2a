package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverVariable makes the test binary an MCP server over stdio. It comes by
// the server's configuration, since nothing is inherited.
const serverVariable = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(serverVariable) {
	case "":
		os.Exit(m.Run())
	case "silent":
		fmt.Fprintln(os.Stderr, "I am not in the mood")
		os.Exit(4)
	case "deaf":
		_, _ = io.Copy(io.Discard, os.Stdin) // never answers, ends with its caller
	default:
		if err := newServer(nil).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

const schema = `{"type":"object","properties":{"n":{"type":"number","maximum":9007199254740993}}}`

// newServer is a server written with the Go SDK; its list has several pages.
// What hangs ends with stop.
func newServer(stop <-chan struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ServerOptions{PageSize: 3})
	no := false
	for name, t := range map[string]struct {
		annotations *sdk.ToolAnnotations
		handler     sdk.ToolHandler
	}{
		"echo":  {&sdk.ToolAnnotations{ReadOnlyHint: true}, echo},
		"fail":  {&sdk.ToolAnnotations{IdempotentHint: true}, fail},
		"crash": {nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { os.Exit(3); return nil, nil }},
		"hang":  {nil, hang(stop)},
		"env":   {&sdk.ToolAnnotations{DestructiveHint: &no}, text(func() string { return strings.Join(os.Environ(), "\n") })},
		"huge":  {nil, text(func() string { return strings.Repeat("x", 2<<20) })},
		"nul":   {nil, text(func() string { return "a\x00b" })},
		"broken": {nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return nil, errors.New("disk on fire")
		}},
		"spawn": {nil, spawn},
		"more": {nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			addTool(s, "added", nil, echo)
			return &sdk.CallToolResult{}, nil
		}},
		"meta": {nil, meta},
	} {
		addTool(s, name, t.annotations, t.handler)
	}
	return s
}

func addTool(s *sdk.Server, name string, a *sdk.ToolAnnotations, h sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: json.RawMessage(schema), Annotations: a}, h)
}

func echo(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: string(r.Params.Arguments)}},
		StructuredContent: r.Params.Arguments,
	}, nil
}

func meta(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{StructuredContent: r.Params.Meta}, nil
}

func fail(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no such"}, &sdk.TextContent{Text: "file"}}}, nil
}

// hang does not answer before it is cancelled.
func hang(stop <-chan struct{}) sdk.ToolHandler {
	return func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
		case <-stop:
		}
		return nil, errors.New("cancelled")
	}
}

func text(f func() string) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: f()}}}, nil
	}
}

// spawn starts a process that would outlive the server and tells its number.
func spawn(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{StructuredContent: cmd.Process.Pid}, nil
}
