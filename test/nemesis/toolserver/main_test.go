package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/test/nemesis/ledger"
)

// This binary is the program, too, for the process that it starts.
func TestMain(m *testing.M) {
	if os.Getenv("TOOLSERVER_LISTEN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type process struct {
	*exec.Cmd
	url string
}

func start(t *testing.T, address, path string) *process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), "TOOLSERVER_LISTEN="+address, "TOOLSERVER_LEDGER="+path)
	command.Stderr = t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	p := &process{command, "http://" + address}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cluster.Poll(ctx, p.ready); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		response.Body.Close()
	}
	return err
}

func (p *process) call(t *testing.T, input string) (string, error) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, p.url+"/pay?key=honour", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Countersign-Call", "c")
	request.Header.Set("Idempotency-Key", "k")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// The tool dies before its effect and after it; the ledger knows the
// difference, and a key that was honoured is honoured by the next process.
func TestItDiesBeforeAndAfterTheEffect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	address, path := l.Addr().String(), filepath.Join(t.TempDir(), "ledger")
	const input = `{"behave":"die-before-effect,die-after-effect,answer"}`
	for i, effects := range []int{0, 1} {
		p := start(t, address, path)
		if answer, err := p.call(t, input); err == nil {
			t.Fatalf("request %d was answered: %s", i, answer)
		}
		_ = p.Wait()
		if status := p.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		if got, err := ledger.Read(path); err != nil || len(got) != effects {
			t.Fatalf("after request %d: %+v, %v", i, got, err)
		}
	}
	p := start(t, address, path)
	if answer, err := p.call(t, input); err != nil || answer != `{"effect":1}` {
		t.Errorf("the third request: %s, %v", answer, err)
	}
	if got, err := ledger.Read(path); err != nil || len(got) != 1 {
		t.Errorf("in the end: %+v, %v", got, err)
	}
	if requests, err := ledger.Requests(path); err != nil || len(requests) != 3 {
		t.Errorf("requests: %+v, %v", requests, err)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(fmt.Errorf("told to end, it ended with %w", err))
	}
}
