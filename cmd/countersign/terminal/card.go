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
	s.lines("", Bold, visible.Line(card.Tool.Name))
	s.field("state", StateStyle(card.State), card.State)
	s.field("effect", EffectStyle(card.Tool.Effect), card.Tool.Effect)
	s.field("server", Plain, card.Tool.Server)
	s.field("topic", Plain, card.Topic)
	s.field("asked by", Plain, card.RequestedBy)
	s.field("asked", Plain, stamp(card.RequestedAt, Ago(card.RequestedAt, now)+" ago"))
	if card.State == "requested" {
		s.field("expires", Plain, stamp(card.ExpiresAt, Until(card.ExpiresAt, now)))
	}
	s.field("id", Plain, card.ID)
	s.field("call", Plain, card.CallID)
	s.field("digest", Plain, card.Digest)
	s.repeats(card.Repeats)
	s.verdict(card.Decision)
	if card.State == "requested" {
		s.field("approve", Plain, "countersign approve "+ShortID(card.ID))
		s.field("deny", Plain, "countersign deny "+ShortID(card.ID)+" --reason '…'")
	}
	s.Arguments("arguments", card.Input)
}

func (s Screen) verdict(v *client.Verdict) {
	if v == nil {
		return
	}
	verdict, style := "denied", Red
	if v.Approved {
		verdict, style = "approved", Green
	}
	s.field("decision", style, verdict+" by "+v.DecidedBy+", "+v.DecidedAt.UTC().Format(time.RFC3339))
	s.field("reason", Plain, v.Reason)
}

// Arguments writes a tool's whole input. It wraps lines itself: a line that
// the terminal wraps would begin at the edge, without its bar.
func (s Screen) Arguments(title string, input []byte) {
	if n := visible.CountJSON(input); n > 0 {
		s.lines("  ", Red, hidden(n)+" in the "+title+", shown as ‹U+…›")
	}
	s.lines("  ", Dim, title)
	for line := range strings.SplitSeq(visible.JSON(input), "\n") {
		bar := "│"
		for _, piece := range wrap(line, s.Width-4) {
			fmt.Fprintln(s.Out, "  "+s.paint(Dim, bar)+" "+piece)
			bar = "┆" // the same line, further on
		}
	}
}

func hidden(n int) string {
	if n == 1 {
		return "1 hidden character"
	}
	return fmt.Sprintf("%d hidden characters", n)
}

// field writes one entry of a card, with what a stranger wrote made visible;
// an empty value is left out.
func (s Screen) field(name string, style Style, value string) {
	if value == "" {
		return
	}
	const indent = 12
	head := "  " + s.paint(Dim, pad(name, indent-3)) + " "
	for _, piece := range wrap(visible.Line(value), s.Width-indent) {
		fmt.Fprintln(s.Out, head+s.paint(style, piece))
		head = strings.Repeat(" ", indent)
	}
}

// lines writes a text of any length behind an indent.
func (s Screen) lines(indent string, style Style, text string) {
	for _, piece := range wrap(text, s.Width-len(indent)) {
		fmt.Fprintln(s.Out, indent+s.paint(style, piece))
	}
}

func stamp(t time.Time, relative string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339) + " (" + relative + ")"
}
