package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain lets the test binary be the command.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--root" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTheCommandServesOverStdio(t *testing.T) {
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: exec.Command(os.Args[0], "--root", t.TempDir())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_files"})
	if err != nil || result.IsError {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestTheCommandSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	if err := run(t.Context(), nil, &stderr); err == nil || !strings.Contains(err.Error(), "--root DIR") {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"--root", "/no/such/folder"}, &stderr); err == nil {
		t.Error("a folder that does not exist is served")
	}
}
