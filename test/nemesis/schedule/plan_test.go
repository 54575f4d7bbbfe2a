package schedule

import (
	"slices"
	"testing"
	"time"
)

// A plan is a function of its seed: the same again, another for another seed.
func TestAPlanIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	plan := Plan(7, time.Minute, Emphasis{})
	if !slices.Equal(plan, Plan(7, time.Minute, Emphasis{})) {
		t.Error("the same seed gave two plans")
	}
	if slices.Equal(plan, Plan(8, time.Minute, Emphasis{})) {
		t.Error("two seeds gave one plan")
	}
}

// In two minutes every kind of fault is planned, each within the run, and
// nothing happens twice at once to one target.
func TestAPlanHasEveryKind(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		const length = 2 * time.Minute
		kinds, busy := map[Kind]bool{}, map[string]time.Duration{}
		for _, f := range Plan(seed, length, Emphasis{}) {
			if f.At < busy[f.Target] || f.At+f.For > length || f.Target == "" {
				t.Fatalf("seed %d: %s", seed, f)
			}
			kinds[f.Kind], busy[f.Target] = true, f.At+f.For
		}
		if len(kinds) < len(deal) {
			t.Errorf("seed %d plans only %d kinds of %d", seed, len(kinds), len(deal))
		}
	}
}

// An emphasis leaves only what it names.
func TestAnEmphasisLeavesWhatItNames(t *testing.T) {
	t.Parallel()
	plan := Plan(1, time.Minute, Emphasis{Kinds: []Kind{Kill}, Targets: []string{"worker"}})
	if len(plan) < 10 {
		t.Errorf("%d faults in a minute", len(plan))
	}
	for _, f := range plan {
		if f.Kind != Kill || f.Target != "worker-0" && f.Target != "worker-1" {
			t.Error(f)
		}
	}
}
