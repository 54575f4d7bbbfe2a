package services

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/testnode"
	"github.com/countersign/countersign/pkg/client"
)

// The real thing: a public MCP server from the npm registry, written by
// others, next to one written with the Go SDK. What they declare read-only
// runs, what was approved runs once, and what was denied has no effect (I5,
// I6).
func TestAPublicMCPServerNextToOneInGo(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	theirs, ours := t.TempDir(), t.TempDir()
	d.addServer("files", "node", filepath.Join(testnode.Packages(t, "testdata/filesystem"),
		"@modelcontextprotocol/server-filesystem/dist/index.js"), theirs)
	d.addServer("workspace", filepath.Join(d.Programs, "workspace"), "--root", ours)
	write(t, theirs, "plan.txt", "water the plants")
	write(t, ours, "todo.txt", "buy milk")
	write(t, ours, "old.log", "nobody needs this")

	in := func(name string) string { return filepath.Join(theirs, name) }
	turn := d.register("files-chat",
		toolPart("files__read_text_file", "read", map[string]string{"path": in("plan.txt")}),
		toolPart("files__write_file", "write", map[string]string{"path": in("done.txt"), "content": "watered"}),
		toolPart("files__move_file", "move", map[string]string{"source": in("plan.txt"), "destination": in("gone.txt")}),
		toolPart("workspace__read_file", "read2", map[string]string{"path": "todo.txt"}),
		toolPart("workspace__delete_file", "delete", map[string]string{"path": "old.log"}),
	)
	d.answer(turn, "write", true, "")
	d.answer(turn, "move", false, "the plan stays where it is")
	d.answer(turn, "delete", true, "")
	testcluster.Eventually(t, "the turn goes on", func(ctx context.Context) error {
		now, err := d.Node(1).Turn(ctx, turn.ID)
		if err == nil && now.State != "continuing" {
			err = fmt.Errorf("it is %s: %+v", now.State, now.Calls)
		}
		return err
	})

	parts := d.toolParts("files-chat")
	parts.require(t, "read", "output-available", "water the plants")
	parts.require(t, "write", "output-available", "done.txt")
	parts.require(t, "move", "output-denied", "the plan stays where it is")
	parts.require(t, "read2", "output-available", "buy milk")
	parts.require(t, "delete", "output-available", "deleted old.log")
	requireFiles(t, theirs, map[string]string{"plan.txt": "water the plants", "done.txt": "watered"})
	requireFiles(t, ours, map[string]string{"todo.txt": "buy milk"})
	for _, c := range turn.Calls {
		call, err := d.Node(0).Call(t.Context(), c.ID)
		must(t, err)
		want := 1
		if c.ToolCallID == "move" {
			want = 0
		}
		if len(call.Attempts) != want {
			t.Errorf("%s was tried %d times, want %d", c.Tool, len(call.Attempts), want)
		}
	}
}

// addServer registers an MCP server that the workers start; its tools are
// there when this returns.
func (d *deployment) addServer(name string, command ...string) {
	d.T.Helper()
	_, err := d.Node(0).PutMCPServer(d.T.Context(), name, client.MCPServer{Command: command})
	must(d.T, err)
	testcluster.Eventually(d.T, "the tools of "+name+" are imported", func(ctx context.Context) error {
		_, err := d.Node(1).GetTool(ctx, name+"__read_file")
		return err
	})
}

func (d *deployment) register(topic string, parts ...client.Part) client.Turn {
	d.T.Helper()
	registered, err := d.Node(0).RegisterTurn(d.T.Context(), topic,
		client.TurnRequest{MessageID: "msg_1", RequestedBy: "user:alice", Parts: parts})
	must(d.T, err)
	return registered.Turn
}

// answer decides one call of a turn, as bob.
func (d *deployment) answer(turn client.Turn, toolCall string, approved bool, reason string) {
	d.T.Helper()
	for _, c := range turn.Calls {
		if c.ToolCallID != toolCall {
			continue
		}
		if c.State != "approval-requested" {
			d.T.Fatalf("%s is %s, want it to ask", c.Tool, c.State)
		}
		must(d.T, second(d.As(1, "user:bob").Decide(d.T.Context(), c.ApprovalID, client.Decision{Approved: approved, Reason: reason})))
		return
	}
	d.T.Fatalf("the turn has no call %s", toolCall)
}

// toolParts are the tool parts of a topic's history, by tool call.
type toolParts map[string]json.RawMessage

func (d *deployment) toolParts(topic string) toolParts {
	d.T.Helper()
	history, err := d.Node(1).Messages(d.T.Context(), topic, client.Paging{})
	must(d.T, err)
	parts := toolParts{}
	for _, message := range history.Items {
		for _, part := range message.Parts {
			var named struct{ ToolCallID string }
			must(d.T, json.Unmarshal(part, &named))
			parts[named.ToolCallID] = part
		}
	}
	return parts
}

func (p toolParts) require(t *testing.T, toolCall, state, says string) {
	t.Helper()
	var part struct{ State string }
	must(t, json.Unmarshal(p[toolCall], &part))
	if part.State != state || !strings.Contains(string(p[toolCall]), says) {
		t.Errorf("%s: want %s with %q, got %s", toolCall, state, says, p[toolCall])
	}
}

func toolPart(tool, toolCall string, input map[string]string) client.Part {
	encoded, err := json.Marshal(input)
	if err != nil {
		panic(err) // strings always encode
	}
	return client.ToolPart(tool, toolCall, encoded)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

// requireFiles: the folder holds these and nothing else.
func requireFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != len(want) {
		t.Errorf("%s holds %v, want %v", dir, entries, want)
	}
	for name, content := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != content {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, content)
		}
	}
}
