package model

import (
	"fmt"
	"slices"
	"strings"
)

// exploration is everything that can be reached in a world, breadth first, so
// that the path to what is wrong is a shortest one.
type exploration struct {
	events  []event
	spoil   func(e string, before, after *small) // a seeded bug; nil: none
	worlds  []*small
	via     []step
	found   map[string]int32
	onward  [][2]int32 // by system events: from, to
	fired   map[string]bool
	problem string // what is wrong, with the path to it; "": nothing
}

type step struct {
	from  int32
	event string
}

// explore goes through all worlds of a kind until one breaks a rule.
func explore(k worldKind, spoil func(e string, before, after *small)) *exploration {
	x := &exploration{events: k.events(), spoil: spoil, found: map[string]int32{}, fired: map[string]bool{}}
	x.add(k.start(), step{-1, "start"})
	for i := 0; i < len(x.worlds) && x.problem == ""; i++ {
		for _, e := range x.events {
			if wrong := x.try(int32(i), e); wrong != "" {
				x.problem = fmt.Sprintf("%s\n%s%s", wrong, x.path(int32(i)), e.name)
				break
			}
		}
	}
	if x.problem == "" {
		x.problem = x.stranded()
	}
	return x
}

func (x *exploration) add(w *small, by step) int32 {
	key := w.key()
	if n, known := x.found[key]; known {
		return n
	}
	n := int32(len(x.worlds))
	x.found[key] = n
	x.worlds, x.via = append(x.worlds, w), append(x.via, by)
	return n
}

// try lets an event happen in a world, and says which rule it broke.
func (x *exploration) try(i int32, e event) string {
	before := x.worlds[i]
	if e.when != nil && !e.when(before) {
		return ""
	}
	after := before.load()
	can, err := e.do(after)
	if !can {
		return ""
	}
	if x.spoil != nil {
		x.spoil(e.name, before, after)
	}
	wrong := after.book(before)
	if wrong == "" {
		wrong = check(before, after, err)
	}
	if wrong != "" {
		return wrong
	}
	x.fired[e.name] = true
	after.share(before)
	if n := x.add(after, step{i, e.name}); e.system && n != i {
		x.onward = append(x.onward, [2]int32{i, n})
	}
	return ""
}

// path gives the events that led to a world, each on its line.
func (x *exploration) path(i int32) string {
	var names []string
	for ; i >= 0; i = x.via[i].from {
		names = append(names, x.via[i].event)
	}
	slices.Reverse(names)
	return strings.Join(names, "\n") + "\n"
}

// stranded looks for a world from which the system alone does not bring the
// turn to its end, or to where a person must do something (I8).
func (x *exploration) stranded() string {
	back := make([][]int32, len(x.worlds))
	for _, edge := range x.onward {
		back[edge[1]] = append(back[edge[1]], edge[0])
	}
	moves := make([]bool, len(x.worlds))
	var queue []int32
	for i, w := range x.worlds {
		if w.rests() {
			moves[i] = true
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, from := range back[i] {
			if !moves[from] {
				moves[from] = true
				queue = append(queue, from)
			}
		}
	}
	if i := slices.Index(moves, false); i >= 0 {
		return "stranded (I8): " + string(x.worlds[i].turn.State()) + "\n" + x.path(int32(i))
	}
	return ""
}

// rests tells whether nothing of the system's is left to do: the turn is over
// and so is the one after it, or a person must act.
func (w *small) rests() bool {
	switch t := w.turn; t.State() {
	case TurnAborted, TurnError, TurnAwaitingApproval, TurnNeedsAttention:
		return true
	case TurnDone:
		return w.next.State().Ended()
	case TurnContinuing:
		return t.Continuation.State == ContinuationFailed
	}
	return false
}
