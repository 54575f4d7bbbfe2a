package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/countersign/countersign/pkg/daemon"
)

// actAs, when set, makes this binary a program of the named behaviour.
const actAs = "DAEMON_TEST_ACT_AS"

func TestMain(m *testing.M) {
	behaviours := map[string]daemon.Command{
		"help": func(context.Context, []string, func(string) string, io.Writer) error { return daemon.ErrHelp },
		"fail": func(context.Context, []string, func(string) string, io.Writer) error {
			return errors.New("no database")
		},
		"stop": func(ctx context.Context, _ []string, _ func(string) string, stdout io.Writer) error {
			fmt.Fprintln(stdout, "running")
			<-ctx.Done()
			fmt.Fprintln(stdout, "told to stop")
			return nil
		},
		"hang": func(ctx context.Context, _ []string, _ func(string) string, stdout io.Writer) error {
			fmt.Fprintln(stdout, "running")
			<-ctx.Done()
			fmt.Fprintln(stdout, "told to stop")
			select {}
		},
	}
	if run := behaviours[os.Getenv(actAs)]; run != nil {
		daemon.Main(run)
	}
	os.Exit(m.Run())
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]int{"help": 0, "fail": 1} {
		cmd := program(behaviour)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		_ = cmd.Run() // judged by its code
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s exits with %d, want %d", behaviour, got, want)
		}
		if said := strings.Contains(stderr.String(), "no database"); said != (behaviour == "fail") {
			t.Errorf("%s says %q", behaviour, stderr.String())
		}
	}
}

func TestTheFirstSignalStopsAndTheSecondExitsAtOnce(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]int{"stop": 0, "hang": 130} {
		cmd := program(behaviour)
		output, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(output)
		expect(t, lines, "running")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		expect(t, lines, "told to stop")
		if behaviour == "hang" {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // judged by its code
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s exits with %d, want %d", behaviour, got, want)
		}
	}
}

func TestEveryProgramCanAskWhetherAnotherIsWell(t *testing.T) {
	t.Parallel()
	health := daemon.NewHealth(daemon.NewLogger(t.Output(), "json", "info"))
	server := httptest.NewServer(health.Handler(nil))
	defer server.Close()
	ask := func() error { return program("fail", "healthcheck", server.URL+"/readyz").Run() }
	if err := ask(); err != nil {
		t.Errorf("asking a ready service = %v", err)
	}
	health.Drain()
	if err := ask(); err == nil {
		t.Error("asking a draining service succeeds")
	}
}

func program(behaviour string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), actAs+"="+behaviour)
	return cmd
}

func expect(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	if !lines.Scan() || lines.Text() != want {
		t.Fatalf("the program says %q, want %q", lines.Text(), want)
	}
}
