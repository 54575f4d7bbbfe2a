package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/countersign/countersign/test/nemesis/site"
	"github.com/countersign/countersign/test/nemesis/trial"
)

// A slice of the runs that "make nemesis" makes, by the same runner: users at
// work, every kind of fault, healing, rest, and every check.
func TestNothingIsLostDoubledOrStranded(t *testing.T) {
	dir := runs(t)
	programs := filepath.Join(dir, "programs")
	if err := site.Build(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	report, err := one(t.Context(), trial.Config{Seed: fixed[0], Load: slice, Programs: programs, Out: &out}, dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if report.Failed() {
		t.Errorf("the run failed; its folder is %s\n%s", keep(t, dir), &out)
	}
}

// slice is the load of a run in the tests: with start, rest and checks, about
// a minute.
const slice = 35 * time.Second

// The same checks find a bug that is there.
func TestABugThatIsThereIsFound(t *testing.T) {
	var out bytes.Buffer
	dir := runs(t)
	for _, b := range bugs {
		if b.tag != "bug_rerun" {
			continue
		}
		report, err := find(t.Context(), b, dir, &out)
		if err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
		if !b.foundIn(report) {
			t.Errorf("it was not found\n%s", &out)
		}
		return
	}
	t.Error("there is no such bug")
}

// runs makes the folder of a test's runs, which is removed with the test
// unless a run is kept.
func runs(t *testing.T) string {
	t.Helper()
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}

// keep keeps the folder of a run that failed, and gives it.
func keep(t *testing.T, dir string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "kept"), nil, 0o644); err != nil {
		t.Error(err)
	}
	return dir
}
