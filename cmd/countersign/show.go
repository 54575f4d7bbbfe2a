package main

import (
	"context"
	"time"
)

type showCmd struct {
	people
	ID string `arg:"" help:"The card: its id, its call's id, or the beginning or end of one."`
}

// Help is shown below the flags' help.
func (showCmd) Help() string {
	return `Everything that would run is shown, never shortened. Characters that do not show are written as ‹U+202E›.

Examples:
  countersign show 4f2a91c0
  countersign show 4f2a91c0 --json | jq .input`
}

func (cmd *showCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	card, err := findCard(ctx, c, cmd.ID)
	if err != nil {
		return err
	}
	out := cmd.output(p)
	if out.json {
		return out.document(card)
	}
	out.Card(card, time.Now())
	return nil
}
