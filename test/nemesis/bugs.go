package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/test/nemesis/schedule"
	"github.com/countersign/countersign/test/nemesis/site"
	"github.com/countersign/countersign/test/nemesis/trial"
)

// bug is a known one, with what a run dwells on to find it soon.
type bug struct {
	tag  string
	seed uint64
	schedule.Emphasis
	by []string // what the invariants that it breaks begin with
}

// bugs are all of package internal/bugs. Each emphasis widens the moment in
// which the bug does harm; what finds it is one of the ordinary checks.
var bugs = []bug{
	{"bug_nolock", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Delay}, Targets: []string{"api-0>postgres", "api-1>postgres"}},
		[]string{"I1", "I2"}},
	{"bug_noclaim", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Forge, schedule.Kill}, Targets: []string{"worker"}},
		[]string{"I4", "I5", "I6"}},
	{"bug_rerun", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.ToolFails, schedule.Kill}, Targets: []string{"worker"}},
		[]string{"I4"}},
	{"bug_nofence", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Pause}, Targets: []string{"worker"}},
		[]string{"I4"}},
	{"bug_setcache", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Delay}, Targets: []string{"api-0>postgres", "api-1>postgres"}},
		[]string{"I8: a projection", "I8: Redis"}},
	{"bug_lostcommit", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Snap}, Targets: []string{"worker-0>postgres", "worker-1>postgres"}},
		[]string{"I4: an outcome"}},
	{"bug_reply", 1, schedule.Emphasis{Kinds: []schedule.Kind{schedule.Delay}, Targets: []string{"users>api-0", "users>api-1"}},
		// A second answer that asks has a card that nobody waits for.
		[]string{"I2: each message", "I1: no card is closed by", "I8: nothing is stranded"}},
}

const (
	// bugLoad is how long a bug has to show itself, and bugRest how long
	// everything may take to come to rest after that.
	bugLoad = 35 * time.Second
	bugRest = 60 * time.Second
)

// foundIn tells whether the first thing that a run found is what the bug
// breaks, and not what a slow machine would show as well.
func (b bug) foundIn(r trial.Report) bool {
	return len(r.Violations) > 0 && slices.ContainsFunc(b.by, func(by string) bool { return strings.HasPrefix(r.Violations[0].Invariant, by) })
}

// find runs one bug and says when it was found, and by which check.
func find(ctx context.Context, b bug, dir string, out io.Writer) (trial.Report, error) {
	dir = filepath.Join(dir, b.tag)
	programs := filepath.Join(dir, "programs")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return trial.Report{}, err
	}
	if err := site.Build(ctx, programs, b.tag); err != nil {
		return trial.Report{}, err
	}
	b.Every = 900 * time.Millisecond
	return one(ctx, trial.Config{Seed: b.seed, Load: bugLoad, Rest: bugRest, Programs: programs, Emphasis: b.Emphasis, Narrow: true,
		Users: 12, Out: out}, dir)
}

// findAll runs every bug, and fails if one was not found.
func findAll(ctx context.Context, only, dir string, out io.Writer) error {
	missed := 0
	for _, b := range bugs {
		if only != "all" && only != b.tag {
			continue
		}
		log, err := os.Create(filepath.Join(dir, b.tag+".log"))
		if err != nil {
			return err
		}
		report, err := find(ctx, b, dir, log)
		_ = log.Close()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", b.tag, err)
		case !b.foundIn(report):
			missed++
			fmt.Fprintf(out, "%-15s NOT FOUND with seed %d; see %s\n", b.tag, b.seed, log.Name())
		default:
			fmt.Fprintf(out, "%-15s found after %4.1f s, by %q\n", b.tag, report.First.Seconds(), report.Violations[0].Invariant)
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d bugs were not found; the runs are in %s", missed, dir)
	}
	return os.RemoveAll(dir)
}
