package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

// part is what the story needs of a message's part.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	State     string          `json:"state"`
	Input     json.RawMessage `json:"input"`
	Output    json.RawMessage `json:"output"`
	ErrorText string          `json:"errorText"`
	Approval  struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

func (p part) tool() string { return visible.Line(strings.TrimPrefix(p.Type, "tool-")) }

// step begins a numbered step.
func (d *demo) step(format string, values ...any) {
	d.steps++
	fmt.Fprintln(d.Screen.Out)
	d.Screen.Line("", terminal.Bold, "%d  %s", d.steps, fmt.Sprintf(format, values...))
}

func (d *demo) hint(format string, values ...any) {
	d.Screen.Line("  ", terminal.Dim, format, values...)
}

// tell says what an event brings that was not said before.
func (d *demo) tell(ctx context.Context, event client.Event) error {
	if m := event.Message; m != nil && m.Role == "assistant" {
		for i, raw := range m.Parts {
			var p part
			if err := json.Unmarshal(raw, &p); err != nil {
				return err
			}
			key := fmt.Sprintf("%s-%d", m.ID, i)
			said := p.Type + p.State
			before := d.told[key]
			if before == said {
				continue
			}
			d.told[key] = said
			d.interrupt()
			if err := d.part(ctx, p, before == ""); err != nil {
				return err
			}
		}
	}
	d.ask()
	if s := event.Status; s != nil && len(d.told) > 0 {
		d.over = s.Status == "done" || s.Status == "error" || s.Status == "aborted"
	}
	return nil
}

// ask asks about the open card, unless the question stands already.
func (d *demo) ask() {
	if d.card != "" && !d.Yes && !d.asking {
		fmt.Fprint(d.Screen.Out, "  Approve? yes, or no and why: ")
		d.asking = true
	}
}

// interrupt leaves the line with the question.
func (d *demo) interrupt() {
	if d.asking {
		fmt.Fprintln(d.Screen.Out)
		d.asking = false
	}
}

// part tells of one part: the model's words, or a call and what becomes of it.
func (d *demo) part(ctx context.Context, p part, isNew bool) error {
	switch {
	case p.Type == "step-start":
		d.step("The chat backend hands over what the model says")
	case p.Type == "text":
		d.Screen.Quote(p.Text)
	case p.State == "approval-requested":
		return d.open(ctx, p)
	case strings.HasPrefix(p.Type, "tool-"):
		return d.call(ctx, p, isNew)
	}
	return nil
}

// call tells how a call stands that does not wait for anybody.
func (d *demo) call(ctx context.Context, p part, isNew bool) error {
	if d.card != "" && d.card == p.Approval.ID {
		d.card = ""
		if err := d.decided(ctx, p.Approval.ID); err != nil {
			return err
		}
	}
	if isNew && p.Approval.ID == "" {
		d.Screen.Line("  ", terminal.Plain, "%s %s: allowed, so it runs by itself", p.tool(), visible.JSONLine(p.Input))
	}
	switch p.State {
	case "output-available":
		d.Screen.Line("  ", terminal.Green, "%s has run:", p.tool())
		d.Screen.Quote(result(p.Output))
	case "output-error":
		d.Screen.Line("  ", terminal.Red, "%s: %s", p.tool(), p.ErrorText)
	}
	return nil
}

// decided tells what closed the card, and by whose hand.
func (d *demo) decided(ctx context.Context, id string) error {
	card, err := d.Client.Approval(ctx, id)
	switch {
	case err != nil:
		return err
	case card.Decision == nil:
		d.step("The card is closed: %s. Nothing runs", card.State)
	case card.Decision.Approved:
		d.step("Approved by %s. It is committed; a worker claims the call and runs it, once", card.Decision.DecidedBy)
	default:
		d.step("Denied by %s. It is committed; nothing runs, and the model is told", card.Decision.DecidedBy)
	}
	return nil
}

// result is an output as text, where it is text.
func result(output json.RawMessage) string {
	var answer struct {
		Content []struct{ Text string } `json:"content"`
	}
	if json.Unmarshal(output, &answer) == nil && len(answer.Content) == 1 {
		return strings.TrimRight(answer.Content[0].Text, "\n")
	}
	return visible.JSON(output)
}

// end says what there is to do next.
func (d *demo) end() {
	d.step("The conversation went on exactly once, and is done")
	d.hint("Everything that you saw is rows in Postgres. Kill any process in the middle next time: nothing is lost or done twice.")
	d.hint("Again, on the page: %s", d.page())
	d.hint("Cards of your own: see the curl that countersign dev printed, then countersign inbox.")
}

// open shows a card and asks.
func (d *demo) open(ctx context.Context, p part) error {
	card, err := d.Client.Approval(ctx, p.Approval.ID)
	if err != nil {
		return err
	}
	d.card = card.ID
	d.step("%s changes something, so it waits for a person", p.tool())
	d.Screen.Card(card, time.Now())
	fmt.Fprintln(d.Screen.Out)
	if d.Yes {
		return d.answer(ctx, "yes")
	}
	d.hint("Decide on the page, with the commands above from another terminal, or here.")
	return nil
}

// answer decides the open card by what a person typed.
func (d *demo) answer(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	d.asking = false // the answer ended its line
	if d.card == "" || line == "" {
		d.ask()
		return nil
	}
	word, rest, _ := strings.Cut(line, " ")
	decision := client.Decision{Approved: false, Reason: strings.TrimSpace(rest)}
	switch strings.ToLower(strings.Trim(word, ",.:")) {
	case "y", "yes", "approve":
		decision.Approved = true
	case "n", "no", "deny":
	default:
		d.ask()
		return nil
	}
	card, err := d.Client.Approval(ctx, d.card)
	if err != nil {
		return err
	}
	decision.Digest = card.Digest
	_, err = d.Client.Decide(ctx, d.card, decision)
	if client.Is(err, "already-decided") || client.Is(err, "approval-closed") {
		d.Screen.Line("  ", terminal.Yellow, "Somebody else was faster: %v", err)
		return nil
	}
	return err
}
