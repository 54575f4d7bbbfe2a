package main

import "context"

type denyCmd struct {
	people
	ID     string `arg:"" help:"The card: its id, its call's id, or the beginning or end of one."`
	Reason string `help:"Why; the model is told." required:""`
	Digest string `help:"Only if the card still has this digest, or one that begins so." placeholder:"DIGEST"`
}

// Help is shown below the flags' help.
func (denyCmd) Help() string {
	return `The conversation goes on: the model is told that the call was denied, and why.

Examples:
  countersign deny 4f2a91c0 --reason 'not on a Friday'`
}

func (cmd *denyCmd) Run(ctx context.Context, p process) error {
	return answer{cmd.people, cmd.ID, false, cmd.Reason, cmd.Digest, nil}.give(ctx, p)
}
