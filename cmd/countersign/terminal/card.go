package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// Card writes everything that a person needs to decide: what would run, with
// all its arguments, for whom, until when, and how to answer.
func (s Screen) Card(card client.Approval, now time.Time) {
	fmt.Fprintf(s.Out, "%s  %s\n", s.paint(Bold, visible.Line(card.Tool.Name)), s.paint(StateStyle(card.State), visible.Line(card.State)))
	s.field("effect", s.paint(EffectStyle(card.Tool.Effect), visible.Line(card.Tool.Effect)))
	s.field("server", visible.Line(card.Tool.Server))
	s.field("topic", visible.Line(card.Topic))
	s.field("asked by", visible.Line(card.RequestedBy))
	s.field("asked", stamp(card.RequestedAt, Ago(card.RequestedAt, now)+" ago"))
	if card.State == "requested" {
		s.field("expires", stamp(card.ExpiresAt, Until(card.ExpiresAt, now)))
	}
	s.field("id", visible.Line(card.ID))
	s.field("call", visible.Line(card.CallID))
	s.field("digest", visible.Line(card.Digest))
	s.verdict(card.Decision)
	if card.State == "requested" {
		short := visible.Line(ShortID(card.ID))
		s.field("approve", "countersign approve "+short)
		s.field("deny", "countersign deny "+short+" --reason '…'")
	}
	s.Arguments("arguments", card.Input)
}

func (s Screen) verdict(v *client.Verdict) {
	if v == nil {
		return
	}
	verdict := s.paint(Red, "denied")
	if v.Approved {
		verdict = s.paint(Green, "approved")
	}
	s.field("decision", verdict+" by "+visible.Line(v.DecidedBy)+", "+v.DecidedAt.UTC().Format(time.RFC3339))
	s.field("reason", visible.Line(v.Reason))
}

// Arguments writes a tool's whole input.
func (s Screen) Arguments(title string, input []byte) {
	if n := visible.CountJSON(input); n > 0 {
		fmt.Fprintln(s.Out, "  "+s.paint(Red, hidden(n)+" in the "+title+", shown as ‹U+…›"))
	}
	fmt.Fprintln(s.Out, "  "+s.paint(Dim, title))
	for line := range strings.SplitSeq(visible.JSON(input), "\n") {
		fmt.Fprintln(s.Out, "  "+s.paint(Dim, "│")+" "+line)
	}
}

func hidden(n int) string {
	if n == 1 {
		return "1 hidden character"
	}
	return fmt.Sprintf("%d hidden characters", n)
}

// field writes one line of a card; an empty value is left out.
func (s Screen) field(name, value string) {
	if value != "" {
		fmt.Fprintf(s.Out, "  %s %s\n", s.paint(Dim, pad(name, 9)), value)
	}
}

func stamp(t time.Time, relative string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + " (" + relative + ")"
}
