package workspace_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/countersign/countersign/examples/workspace/workspace"
)

// connect serves a folder over streamable HTTP, as countersign dev does.
func connect(t *testing.T, folder string) *mcp.ClientSession {
	t.Helper()
	server, closeFolder, err := workspace.NewServer(folder)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		s.CloseClientConnections()
		s.Close()
		closeFolder()
	})
	return session
}

func call(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

func TestAFileIsWrittenReadListedAndDeleted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := connect(t, folder)
	for range 2 {
		if text, failed := call(t, s, "write_file", map[string]any{"path": "notes/a.txt", "content": "héllo"}); failed {
			t.Fatal(text)
		}
	}
	if text, failed := call(t, s, "read_file", map[string]any{"path": "notes/a.txt"}); failed || text != "héllo" {
		t.Errorf("read: %q", text)
	}
	if text, failed := call(t, s, "list_files", map[string]any{}); failed || text != "notes/a.txt" {
		t.Errorf("list: %q", text)
	}
	if text, failed := call(t, s, "delete_file", map[string]any{"path": "notes"}); !failed {
		t.Errorf("a folder is deleted: %q", text)
	}
	if text, failed := call(t, s, "delete_file", map[string]any{"path": "notes/a.txt"}); failed {
		t.Errorf("delete: %q", text)
	}
	if text, failed := call(t, s, "delete_file", map[string]any{"path": "notes/a.txt"}); !failed || strings.Contains(text, folder) {
		t.Errorf("delete again: %q", text)
	}
	if text, _ := call(t, s, "list_files", map[string]any{"path": "notes"}); text != "no files" {
		t.Errorf("list: %q", text)
	}
}

func TestNoPathLeadsOut(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(outside, "workspace")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"file": secret, "folder": outside, "up": ".."} {
		if err := os.Symlink(target, filepath.Join(folder, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := connect(t, folder)
	for _, path := range []string{"../secret", secret, "a/../../secret", "file", "folder/secret", "up/secret"} {
		if text, failed := call(t, s, "read_file", map[string]any{"path": path}); !failed || strings.Contains(text, "s3cret") {
			t.Errorf("read %s: %q", path, text)
		}
		if text, failed := call(t, s, "write_file", map[string]any{"path": path, "content": "x"}); !failed {
			t.Errorf("write %s: %q", path, text)
		}
	}
	for _, path := range []string{"../secret", secret, "folder/secret", "up/secret"} {
		if text, failed := call(t, s, "delete_file", map[string]any{"path": path}); !failed {
			t.Errorf("delete %s: %q", path, text)
		}
	}
	if text, _ := call(t, s, "list_files", map[string]any{"path": ".."}); strings.Contains(text, "secret") {
		t.Errorf("list ..: %q", text)
	}
	if data, err := os.ReadFile(secret); err != nil || string(data) != "s3cret" {
		t.Errorf("the file outside: %q, %v", data, err)
	}
}

func TestTheToolsSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	s := connect(t, t.TempDir())
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	hints := map[string][3]bool{}
	for _, tool := range list.Tools {
		a := tool.Annotations
		hints[tool.Name] = [3]bool{a.ReadOnlyHint, a.IdempotentHint, a.DestructiveHint != nil && *a.DestructiveHint}
	}
	want := map[string][3]bool{
		"read_file": {true, false, false}, "list_files": {true, false, false},
		"write_file": {false, true, true}, "delete_file": {false, false, true},
	}
	for name, w := range want {
		if hints[name] != w {
			t.Errorf("%s: %v, want %v", name, hints[name], w)
		}
	}
	if len(hints) != len(want) {
		t.Errorf("tools: %v", hints)
	}
}
