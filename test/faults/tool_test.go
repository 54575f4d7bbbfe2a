package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	did "github.com/countersign/countersign/test/nemesis/ledger"
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

// The tool hangs for ever, answers after its time (21), closes the connection
// before, in or after its answer, fails after the effect, answers with garbage
// (22). What becomes of the call goes by the effect that was declared, and the
// ledger agrees; the worker lives (I4).
func TestFault21And22TheToolMisbehaves(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	s := opens(d)
	worker := d.Workers[0].PID()
	type ordered struct {
		call, what string
		want       outcome
	}
	var all []ordered
	for _, effect := range []string{"read", "idempotent", "keyed", "unsafe"} {
		s.sells(effect, effect, func(tool *client.Tool) { tool.Timeout = "1500ms" })
		for _, first := range did.Behaviours {
			if first == did.DieBeforeEffect || first == did.DieAfterEffect {
				continue // which would be this process
			}
			input := fmt.Sprintf(`{"behave":"%s,answer","delay":"3s"}`, first)
			call := s.order(effect+"-"+string(first), effect, input).ID
			all = append(all, ordered{call, fmt.Sprintf("%s, %s tool", first, effect), expected(effect, first)})
		}
	}
	for _, o := range all {
		s.runIs(o.call, o.want.run)
		s.took(o.call, o.want.effects)
		requests := s.requests(o.call)
		if len(requests) != o.want.requests {
			t.Errorf("%s: %d requests, want %d", o.what, len(requests), o.want.requests)
		}
		for _, r := range requests {
			if r.Key == "" || r.Key != requests[0].Key || r.SHA256 != requests[0].SHA256 {
				t.Errorf("%s: requests of one run differ: %+v", o.what, requests)
			}
		}
	}
	if d.Workers[0].PID() != worker || d.Workers[0].Ended() || strings.Contains(d.Workers[0].Log.Tail(1<<20), "panic") {
		t.Error("the worker did not live on")
	}
}
