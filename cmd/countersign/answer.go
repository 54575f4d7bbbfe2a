package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

// answer is a person's decision about a card, for approve and deny.
type answer struct {
	people
	id       string
	approved bool
	reason   string
	digest   string // what the card's digest must begin with
	input    json.RawMessage
}

// give shows the card, decides exactly what it showed, and tells the outcome.
func (a answer) give(ctx context.Context, p process) error {
	c, err := a.connect(p)
	if err != nil {
		return err
	}
	card, err := findCard(ctx, c, a.id)
	if err != nil {
		return err
	}
	out := a.output(p)
	if !out.json {
		a.preview(out, card)
	}
	if !strings.HasPrefix(card.Digest, a.digest) {
		return changedError{fmt.Errorf("the card has the digest %s now, not %s…; look at it again, then decide", card.Digest, a.digest)}
	}
	outcome, err := c.Decide(ctx, card.ID, client.Decision{
		Approved: a.approved, Reason: a.reason, UpdatedInput: a.input, Digest: card.Digest,
	})
	switch {
	case err != nil && out.json:
		return errors.Join(err, printProblem(out, err))
	case err != nil:
		return err
	case out.json:
		return out.document(outcome.Raw)
	}
	tellOutcome(out, outcome, time.Now())
	return nil
}

func (a answer) preview(out output, card client.Approval) {
	out.Card(card, time.Now())
	if a.input != nil {
		out.Arguments("new arguments", a.input)
	}
	fmt.Fprintln(out.Out)
}

// printProblem gives scripts the document that explains a refusal: who
// decided otherwise, or the card as it is now.
func printProblem(out output, err error) error {
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok || !json.Valid(problem.Raw) {
		return nil
	}
	return out.document(problem.Raw)
}

func tellOutcome(out output, outcome client.DecisionAnswer, now time.Time) {
	card := outcome.Approval
	name := fmt.Sprintf("%s (%s) in %s", card.Tool.Name, terminal.ShortID(card.ID), card.Topic)
	switch {
	case outcome.Result == "recorded":
		out.say("recorded: %s needs more approvers", name)
	case card.Decision == nil:
		out.say("%s: %s", outcome.Result, name)
	case outcome.Result == "already-applied":
		out.say("%s already: %s, by %s %s ago", card.State, name, card.Decision.DecidedBy, terminal.Ago(card.Decision.DecidedAt, now))
	default:
		out.say("%s: %s, by %s", card.State, name, card.Decision.DecidedBy)
	}
}
