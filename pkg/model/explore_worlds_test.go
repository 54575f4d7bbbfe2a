package model

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

var allEffects = []Effect{EffectUnsafe, EffectKeyed, EffectIdempotent, EffectRead}

// smallWorlds are the worlds of every run: each effect beside an unsafe call
// while a worker dies, and each other kind of trouble by itself. With COUNTERSIGN_EXPLORE=all it is every
// pair of effects under all of them, which takes minutes.
func smallWorlds() []worldKind {
	var out []worldKind
	for _, e := range allEffects {
		out = append(out,
			worldKind{name: "crash", tools: [2]callKind{{effect: e, asked: true}, {effect: EffectUnsafe}}, spare: spare{crashes: 1}})
	}
	unsafe, caller := callKind{effect: EffectUnsafe, asked: true}, callKind{effect: EffectKeyed, executor: ExecutorCaller}
	return append(out,
		worldKind{name: "eager", eager: true, tools: [2]callKind{unsafe, {effect: EffectRead}}, spare: spare{stops: 1}},
		worldKind{name: "live", live: true, tools: [2]callKind{unsafe, {effect: EffectKeyed}}},
		worldKind{name: "followers", tools: [2]callKind{unsafe, unsafe}, spare: spare{followers: 2, redrives: 1}},
		worldKind{name: "resolve", tools: [2]callKind{unsafe, {effect: EffectKeyed}}, spare: spare{resolves: 1}},
		worldKind{name: "deny", hold: LapseDeny, tools: [2]callKind{unsafe, caller}},
		worldKind{name: "park", hold: LapsePark, tools: [2]callKind{unsafe, {effect: EffectUnsafe}}},
		worldKind{name: "quorum", quorum: 2, tools: [2]callKind{unsafe, {effect: EffectUnsafe}}},
	)
}

func everyWorld() []worldKind {
	var out []worldKind
	for i, a := range allEffects {
		for _, b := range allEffects[i:] {
			for n := range 24 {
				k := worldKind{name: fmt.Sprint("all", n), eager: n%2 == 1, live: n/2%3 == 1, spare: spare{1, 1, 1, 1, 1},
					tools: [2]callKind{{effect: a, asked: true}, {effect: b, asked: n/6%2 == 0}}}
				if n/2%3 == 2 {
					k.hold, k.tools[1].executor = []OnLapse{LapseDeny, LapsePark}[n/12], ExecutorCaller
				}
				out = append(out, k)
			}
		}
	}
	return out
}

// Every world that can be reached keeps the invariants: one verdict (I1), one
// continuation (I2), no second effect (I4), no run that nobody allowed (I5),
// none of what was denied (I6), nothing stranded (I8), and counters that say
// what is there.
func TestEveryReachableWorldKeepsTheRules(t *testing.T) {
	t.Parallel()
	kinds := smallWorlds()
	if os.Getenv("COUNTERSIGN_EXPLORE") == "all" {
		kinds = everyWorld()
	}
	var mu sync.Mutex
	total, fired := 0, map[string]bool{}
	t.Run("worlds", func(t *testing.T) {
		for _, k := range kinds {
			name := fmt.Sprintf("%s/%s-%s", k.name, k.tools[0].effect, k.tools[1].effect)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				x := explore(k, nil)
				if x.problem != "" {
					t.Error(x.problem)
				}
				mu.Lock()
				defer mu.Unlock()
				total += len(x.worlds)
				for e := range x.fired {
					fired[e] = true
				}
				t.Logf("%d worlds", len(x.worlds))
			})
		}
	})
	t.Logf("%d worlds in all", total)
	for _, k := range kinds { // an event that never happened shows nothing
		for _, e := range k.events() {
			if !fired[e.name] {
				t.Errorf("%q never happened", e.name)
				fired[e.name] = true
			}
		}
	}
}

// The exploration is worth something: a bug in any one rule is found, and
// what it breaks is named.
func TestSeededBugsAreFound(t *testing.T) {
	t.Parallel()
	unsafe, keyed := callKind{effect: EffectUnsafe, asked: true}, callKind{effect: EffectKeyed, asked: true}
	plain := worldKind{tools: [2]callKind{unsafe, keyed}, spare: spare{followers: 1}}
	for name, bug := range seededBugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := plain
			k.live = bug.live
			if bug.crash {
				k.spare.crashes, k.tools[1] = 1, callKind{effect: EffectRead}
			}
			x := explore(k, bug.spoil)
			if !strings.Contains(x.problem, bug.breaks) {
				t.Errorf("wanted %q after %d worlds, got %q", bug.breaks, len(x.worlds), x.problem)
			}
		})
	}
}
