// Package model_test checks the Promela model in this folder with Spin: the
// protocol as it is built keeps every property, and each seeded bug breaks the
// one that is named beside it.
package model_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// check is one run of the model checker.
type check struct {
	name    string
	defines []string
	live    bool   // the liveness property under weak fairness; else all assertions
	breaks  string // what Spin must find broken; "": nothing
}

// none are the bounds of a world without misfortune; each check raises some.
var none = map[string]string{"CRASHES": "0", "DEATHS": "0", "FAILS": "0", "LOSSES": "0", "REPEATS": "0"}

// The protocol: what is asserted, in worlds that differ in what goes wrong,
// and that every decided turn continues, whoever dies.
var protocol = []check{
	{name: "a worker dies", defines: []string{"CRASHES=1"}},
	{name: "messages come again", defines: []string{"NOCANCEL", "REPEATS=1"}},
	{name: "a live turn dies and a message is lost", defines: []string{"ALONE", "DEATHS=1", "LOSSES=1"}},
	{name: "a live turn is given up", defines: []string{"ALONE", "FAILS=1"}},
	{name: "a reply, whatever happens to it", defines: []string{"REPLY", "DEATHS=2", "FAILS=2", "LOSSES=1", "REPEATS=1"}},
	{name: "every decided turn continues", defines: []string{"ALONE", "CRASHES=1", "DEATHS=1", "FOREVER"}, live: true},
	{name: "every reply is given", defines: []string{"REPLY", "DEATHS=1", "FAILS=1", "LOSSES=1", "FOREVER"}, live: true},
}

// The seeded bugs, each with the property that catches it: an assertion as it
// stands in the model, or the liveness property.
var bugs = []check{
	{name: "two-step decider without the turn's lock", defines: []string{"NOLOCK"}, live: true, breaks: cycle},
	{name: "message trusted instead of a claim", defines: []string{"NOCANCEL", "NOCLAIM", "REPEATS=1"}, breaks: "effects[0]<=1"},
	{name: "unsafe run again after a lost lease", defines: []string{"NOCANCEL", "RERUN"}, breaks: "effects[0]<=1"},
	{name: "result without a fence", defines: []string{"NOFENCE"}, breaks: "fence[c]==mine"},
	{name: "continuation at the last decision", defines: []string{"EARLY"}, breaks: "openCalls==0"},
	{name: "card reopened", defines: []string{"REOPEN"}, breaks: "verdicts[c]==1"},
	{name: "cancel leaves queued calls", defines: []string{"LEAVEQUEUED"}, breaks: "!(ended)"},
	{name: "sweep requeues in an ended turn", defines: []string{"REQUEUEENDED"}, breaks: "!(ended)"},
	{name: "resolved while the attempt may be alive", defines: []string{"NOQUARANTINE"}, breaks: "!(foundNot[c])"},
	{name: "accepted by whoever asks", defines: []string{"TWOACCEPT", "REPEATS=1"}, breaks: "completed==1"},
	{name: "dead live turn completes", defines: []string{"NOLIVEFENCE", "DEATHS=1"}, breaks: "accepter==(1+id)"},
	{name: "no sweep of lost leases", defines: []string{"ALONE", "CRASHES=1", "NOSWEEP"}, live: true, breaks: cycle},
	{name: "hints alone start runs", defines: []string{"ALONE", "LOSSES=1", "HINTSONLY"}, live: true, breaks: cycle},
	{name: "continuation of a dead turn is not returned", defines: []string{"ALONE", "DEATHS=1", "NORETURN"}, live: true, breaks: cycle},
	{name: "given up by a turn whose lease was lost", defines: []string{"REPLY", "DEATHS=1", "FAILS=1", "ABANDONANY"}, breaks: "accepter==(1+id)"},
	{name: "continuation of a given up turn has not failed", defines: []string{"REPLY", "FAILS=1", "NOFAIL"}, live: true, breaks: cycle},
	{name: "returned although a call was committed", defines: []string{"REPLY", "DEATHS=1", "RETURNCALLED"}, breaks: "completed==1"},
	{name: "returned from a turn that was ended", defines: []string{"REPLY", "DEATHS=1", "RETURNENDED"}, breaks: "!(nextEnded)"},
	{name: "queued reply given before its turn", defines: []string{"REPLY", "REPEATS=1", "ACCEPTQUEUED"}, breaks: "!(before)"},
	{name: "late mark without the state", defines: []string{"REPLY", "MARKBLIND"}, breaks: "completed==1"},
	{name: "late mark without the generation", defines: []string{"REPLY", "DEATHS=1", "NOGENERATION"}, breaks: "assertion violated told"},
}

// The bounds of a check: a name of the liveness property's violation, and the time.
const (
	cycle   = "acceptance cycle"
	perTime = 3 * time.Minute // of one check, on a machine that has much else to do
)

// Spin finds nothing wrong with the protocol, and every seeded bug.
func TestSpinChecksTheProtocol(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("install %s: scripts/setup.sh spin compiler", program)
		}
	}
	source, err := filepath.Abs("countersign.pml")
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan struct{}, runtime.NumCPU())
	for _, c := range append(append([]check{}, protocol...), bugs...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			out := c.run(t, source)
			states := storedStates.FindString(out)
			switch wrong := violation.FindString(out); {
			case c.breaks == "" && !strings.Contains(out, "errors: 0"), !complete(out) && c.breaks == "":
				t.Errorf("the protocol breaks a property, or was not gone through whole:\n%s", out)
			case c.breaks != "" && !strings.Contains(wrong, c.breaks):
				t.Errorf("the bug must break %s, got %q:\n%s", c.breaks, wrong, out)
			default:
				t.Logf("%s; %s", states, wrong)
			}
		})
	}
}

var (
	storedStates = regexp.MustCompile(`\d+ states, stored`)
	violation    = regexp.MustCompile(`pan:\d+: [^\n]*`)
)

// complete tells whether the whole of the state space was searched.
func complete(out string) bool {
	return !strings.Contains(out, "Search not completed") && !strings.Contains(out, "max search depth too small")
}

// run makes the checker of one variant in a folder of its own and runs it.
func (c check) run(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), perTime)
	defer cancel()
	generate := []string{"-a"}
	bounds := map[string]string{}
	for k, v := range none {
		bounds[k] = v
	}
	for _, d := range c.defines {
		name, value, _ := strings.Cut(d, "=")
		bounds[name] = value
	}
	for name, value := range bounds {
		if value == "" {
			generate = append(generate, "-D"+name)
		} else {
			generate = append(generate, "-D"+name+"="+value)
		}
	}
	optimize := "-O2"
	if c.breaks != "" {
		optimize = "-O0" // a bug is found soon; compiling would take longer
	}
	compile := []string{"-w", optimize, "-DCOLLAPSE", "-DVECTORSZ=2048", "-o", "pan", "pan.c"}
	search := []string{"-m100000", "-w22"}
	if c.live {
		generate = append(generate, "-DLIVENESS")
		compile, search = append(compile, "-DNFAIR=4"), append(search, "-a", "-f", "-N", "continues")
	} else {
		compile = append(compile, "-DSAFETY")
	}
	command(ctx, t, dir, "spin", append(generate, source)...)
	command(ctx, t, dir, "cc", compile...)
	return command(ctx, t, dir, "./pan", search...)
}

// command runs a program in dir and gives what it printed.
func command(ctx context.Context, t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
