package terminal

import (
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// Call writes what a person needs to find out what became of a call: what it
// was to do, what is known of each attempt, and how to say what was found.
func (s Screen) Call(call client.Call, input []byte, now time.Time) {
	s.lines("", Bold, visible.Line(call.Tool))
	s.field("run", runStyle(call.Run), call.Run)
	s.field("effect", EffectStyle(call.Effect), call.Effect)
	s.field("topic", Plain, call.Topic)
	s.field("id", Plain, call.ID)
	s.field("what", Plain, call.ErrorText)
	for _, a := range call.Attempts {
		s.field(fmt.Sprintf("attempt %d", a.Fence), Plain, attempt(a, now))
	}
	s.repeats(call.Repeats)
	if r := call.Resolution; r != nil {
		s.field("resolved", Green, r.Outcome+" by "+r.ResolvedBy+", "+r.ResolvedAt.UTC().Format(time.RFC3339))
		s.field("evidence", Plain, r.Evidence)
	}
	if call.Run == "outcome-unknown" {
		s.howToResolve(call, now)
	}
	s.Arguments("arguments", input)
}

func runStyle(run string) Style {
	if run == "outcome-unknown" {
		return Red
	}
	return Plain
}

func attempt(a client.Attempt, now time.Time) string {
	out := "started " + stamp(a.StartedAt, Ago(a.StartedAt, now)+" ago")
	if a.Worker != "" {
		out += " by " + a.Worker
	}
	if a.FinishedAt.IsZero() {
		return out + ", still running"
	}
	out += "; " + a.Outcome + " after " + span(a.FinishedAt.Sub(a.StartedAt))
	if a.Detail != "" {
		out += ": " + a.Detail
	}
	return out
}

func (s Screen) howToResolve(call client.Call, now time.Time) {
	if call.ResolvableAt.After(now) {
		s.field("earliest", Yellow, stamp(call.ResolvableAt, Until(call.ResolvableAt, now))+"; until then it may still be alive")
	}
	short := "countersign resolve " + ShortID(call.ID)
	s.field("happened", Plain, short+" --happened --evidence '…'")
	s.field("did not", Plain, short+" --did-not-happen")
	s.field("unclear", Plain, short+" --closed")
}

// repeats warns that what is shown may do again what was done already.
func (s Screen) repeats(e *client.Earlier) {
	if e == nil {
		return
	}
	state := e.Run
	if e.Resolution != "" {
		state += ", resolved as " + e.Resolution
	}
	s.field("repeats?", Red, "possible duplicate of "+ShortID(e.Call)+" ("+state+"), the same tool and input in this topic")
}
