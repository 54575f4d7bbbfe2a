package failpoints

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/failpoint"
)

// An ordinary program has nothing of the fail points: no name of one, and no
// code. In one that was built for them, they are found by the same look.
func TestNothingOfItIsInOrdinaryPrograms(t *testing.T) {
	t.Parallel()
	with, without := testcluster.Built(t, tag), testcluster.Built(t)
	for _, service := range cluster.Services {
		if found := traces(t, filepath.Join(without, service)); len(found) > 0 {
			t.Errorf("%s has %v", service, found)
		}
		if len(traces(t, filepath.Join(with, service))) < 2 {
			t.Errorf("%s was built for fail points and has none", service)
		}
	}
}

// traces are the symbols and the names of fail points in a program.
func traces(t *testing.T, program string) (found []string) {
	t.Helper()
	symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", program).Output()
	must(t, err)
	for line := range strings.Lines(string(symbols)) {
		if strings.Contains(line, "pkg/failpoint.") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	content, err := os.ReadFile(program)
	must(t, err)
	for _, p := range []failpoint.Point{failpoint.RunAfterEffect, failpoint.AckBefore, failpoint.AnswerBefore, failpoint.SinkBeforeSend} {
		if bytes.Contains(content, []byte(p)) {
			found = append(found, string(p))
		}
	}
	return found
}

// What cannot be armed ends the start, and says what can.
func TestAnUnknownPointEndsTheStart(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"run.after-everything=kill", "run.after-effect=explode"} {
		command := exec.CommandContext(t.Context(), filepath.Join(testcluster.Built(t, tag), "worker"))
		command.Env = append(os.Environ(), "COUNTERSIGN_FAIL="+spec)
		out, err := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != 2 {
			t.Errorf("%s: exit %d, %v", spec, code, err)
		}
		want := "kill, stop, error"
		if strings.Contains(spec, "everything") {
			want = string(failpoint.DrainAfter)
		}
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: it says %s", spec, out)
		}
	}
}
