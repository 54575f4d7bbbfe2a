package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
)

// program is the command, built once, for what only a process of its own can
// show.
var program = sync.OnceValues(func() (string, error) {
	dir, err := testservers.Shared("command")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/countersign", ".").CombinedOutput()
	if err != nil {
		return "", errors.New(string(out))
	}
	return dir + "/countersign", nil
})

// devProcess is a running countersign dev.
type devProcess struct {
	*exec.Cmd
	said  *bytes.Buffer
	ready string
}

func startDev(t *testing.T, dir, listen string) *devProcess {
	t.Helper()
	path, err := program()
	must(t, err)
	p := &devProcess{said: &bytes.Buffer{}, ready: filepath.Join(t.TempDir(), "ready.json")}
	p.Cmd = exec.Command(path, "dev", "--data", dir, "--listen", listen, "--ready-file", p.ready)
	p.Env = append(os.Environ(), "COUNTERSIGN_DATABASE_URL=", "COUNTERSIGN_NATS_URL=", "COUNTERSIGN_REDIS_URL=")
	p.Stdout, p.Stderr = p.said, p.said
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}

// state waits until everything answers.
func (p *devProcess) state(t *testing.T) devstate.State {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(p.ready); err == nil {
			encoded, err := os.ReadFile(p.ready)
			must(t, err)
			var s devstate.State
			must(t, json.Unmarshal(encoded, &s))
			return s
		}
	}
	t.Fatal("it never became ready")
	return devstate.State{}
}

// A development system survives kill -9: the same folder brings the key and
// the rows back. A folder and a port that are taken name their owner and the
// flag to change, and SIGTERM ends everything cleanly.
func TestDevSurvivesItsDeath(t *testing.T) {
	t.Parallel()
	dir, listen := testservers.Dir(t), freeAddress(t)
	first := startDev(t, dir, listen)
	before := first.state(t)
	card, err := client.New(before.URL, before.APIKey).RegisterTurn(t.Context(), "hello", client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("workspace__delete_file", "c", []byte(`{"path":"logs/2024-11.log"}`))}})
	must(t, err)

	for args, want := range map[string]string{
		"--data " + dir + " --listen " + freeAddress(t):                "--data",
		"--data " + testservers.Dir(t) + " --listen " + before.URL[7:]: "--listen",
	} {
		path, err := program()
		must(t, err)
		said, err := exec.Command(path, append([]string{"dev"}, strings.Fields(args)...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(said), want) || !strings.Contains(string(said), "countersign dev") {
			t.Errorf("dev %s: %v, it says %q", args, err, said)
		}
	}

	must(t, first.Process.Kill())
	_ = first.Wait()
	second := startDev(t, dir, listen)
	after := second.state(t)
	if after.APIKey != before.APIKey || after.WebhookSecret != before.WebhookSecret {
		t.Error("the key or the secret changed")
	}
	approval := card.Turn.Calls[0].ApprovalID
	decided, err := client.New(after.URL, after.APIKey).Decide(t.Context(), approval, client.Decision{Approved: false})
	if err != nil || decided.Result != "applied" {
		t.Errorf("the card of before: %s, %v", decided.Result, err)
	}
	must(t, second.Process.Signal(syscall.SIGTERM))
	if err := second.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, it said %s", err, second.said)
	}
	if _, err := devstate.Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a system that ended is still found: %v", err)
	}
}
