package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	did "github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// outcome is what becomes of a call whose first request goes wrong, and whose
// later ones are answered.
type outcome struct {
	run      string
	effects  int // that the tool did
	requests int // that it got
}

// clueless: the worker cannot know whether the first request had its effect,
// which it had, or not.
func clueless(effect string, had bool) outcome {
	first := 0
	if had {
		first = 1
	}
	switch effect {
	case "unsafe":
		return outcome{"outcome-unknown", first, 1}
	case "keyed":
		return outcome{"succeeded", 1, 2}
	}
	return outcome{"succeeded", first + 1, 2}
}

// expected is the outcome by the tool's effect and its first behaviour.
func expected(effect string, first did.Behaviour) outcome {
	switch first {
	case did.Answer, did.Garbage, did.NUL, did.BadUTF8, did.Huge:
		return outcome{"succeeded", 1, 1}
	case did.Refuse:
		return outcome{"failed", 0, 1}
	case did.Hang, did.CloseBeforeEffect, did.FailBeforeEffect:
		return clueless(effect, false)
	}
	return clueless(effect, true)
}

// One worker, and a tool that misbehaves in every way, or that a network keeps
// from it.
func TestFaultsOfTools(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	s := opens(d)
	worker := d.Workers[0].PID()
	t.Run("all", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *shop){
			"Fault21And22TheToolMisbehaves":      misbehaves,
			"Fault52WorkerAndToolAreParted":      partedFromTool,
			"Fault22TheToolDiesAroundItsEffects": dies,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := *s
				own.Deployment = d.In(t)
				test(t, &own)
			})
		}
	})
	if d.Workers[0].PID() != worker || d.Workers[0].Ended() || d.Workers[0].Log.Contains("panic") {
		t.Error("the worker did not live on")
	}
}

// The tool hangs for ever, answers after its time (21), closes the connection
// before, in or after its answer, fails after the effect, answers with garbage
// (22). What becomes of the call goes by the effect that was declared, and the
// ledger agrees (I4).
func misbehaves(t *testing.T, s *shop) {
	type ordered struct {
		call, what string
		want       outcome
		repeatable bool
	}
	var all []ordered
	for _, effect := range []string{"read", "idempotent", "keyed", "unsafe"} {
		s.sells(effect, effect, func(tool *client.Tool) { tool.Timeout = "4s" })
		for _, first := range did.Behaviours {
			if first == did.DieBeforeEffect || first == did.DieAfterEffect {
				continue // which would be this process
			}
			input := fmt.Sprintf(`{"behave":"%s,answer","delay":"6s"}`, first)
			call := s.order(effect+"-"+string(first), effect, input).ID
			all = append(all, ordered{call, fmt.Sprintf("%s, %s tool", first, effect), expected(effect, first),
				effect == "read" || effect == "idempotent"})
		}
	}
	for _, o := range all {
		s.runIs(o.call, o.want.run)
		requests := s.requests(o.call)
		if more := len(requests) - o.want.requests; more > 0 && o.repeatable {
			// A busy machine let the time of an answer run out once more.
			o.want.requests, o.want.effects = o.want.requests+more, o.want.effects+more
		}
		if len(requests) != o.want.requests {
			t.Errorf("%s: %d requests, want %d", o.what, len(requests), o.want.requests)
		}
		s.took(o.call, o.want.effects)
		for _, r := range requests {
			if r.Key == "" || r.Key != requests[0].Key || r.SHA256 != requests[0].SHA256 {
				t.Errorf("%s: requests of one run differ: %+v", o.what, requests)
			}
		}
	}
}

// The network between the worker and a tool loses one direction. Either way
// the worker cannot know; and what was lost on its way to the tool may still
// come there, long after the worker has given up.
func partedFromTool(t *testing.T, s *shop) {
	for name, f := range map[string]proxy.Faults{"up": {LoseUp: true}, "down": {LoseDown: true}} {
		network, url := through(t, s.url)
		there := func(tool *client.Tool) {
			tool.Timeout, tool.HTTP.URL = "1500ms", strings.Replace(tool.HTTP.URL, s.url, url, 1)
		}
		s.sells("pay-"+name, "keyed", there)
		s.sells("mail-"+name, "unsafe", there)
		breaks(t, network, f)
		keyed, once := s.order("keyed "+name, "pay-"+name, `{}`).ID, s.order("once "+name, "mail-"+name, `{}`).ID
		s.runIs(once, "outcome-unknown")
		want := 1
		if f.LoseUp {
			want = 0
		}
		s.took(once, want)
		must(t, network.Heal())
		s.runIs(keyed, "succeeded")
		s.took(once, 1)
		s.took(keyed, 1)
		if c := s.runIs(once, "outcome-unknown"); len(begun(c)) != 1 || network.Counts().Lost == 0 {
			t.Errorf("%s: %s", name, c.Raw)
		}
	}
}

// The tool's process dies before its effect and after it, and is started
// again: a keyed call is asked for again and done once, one that may be done
// once is unknown.
func dies(t *testing.T, s *shop) {
	path := filepath.Join(t.TempDir(), "ledger")
	process, err := cluster.New(s.Programs, "toolserver", "TOOLSERVER_LEDGER="+path)
	must(t, err)
	t.Cleanup(func() { _ = process.Kill() })
	mortal := *s
	mortal.url, mortal.path = process.URL, path
	for effect, tool := range map[string]string{"keyed": "pay", "unsafe": "mail"} {
		for ways, done := range map[string]int{"die-before-effect,answer": 0, "die-after-effect,answer": 1} {
			must(t, process.Start())
			testcluster.Eventually(t, "the tool is there", process.Ready)
			mortal.sells("mortal-"+tool, effect)
			call := mortal.order(effect+" "+ways, "mortal-"+tool, behaving(ways)).ID
			must(t, process.Wait())
			mortal.took(call, done)
			must(t, process.Start())
			if effect == "keyed" {
				mortal.runIs(call, "succeeded")
				mortal.took(call, 1)
			} else {
				mortal.runIs(call, "outcome-unknown")
				mortal.took(call, done)
			}
			must(t, process.Kill())
		}
	}
}
