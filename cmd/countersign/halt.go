package main

import (
	"context"
	"fmt"
)

type haltCmd struct{ database }

// Help is what countersign halt --help adds.
func (haltCmd) Help() string {
	return `The kill switch of a tenant: from its commit on no call is started. What is queued when a worker comes to it is
stopped for good, and the model is told so; what runs already is not broken off. People can go on deciding.

Examples:
  COUNTERSIGN_DATABASE_URL=postgres://owner@db/countersign countersign halt
  countersign resume --tenant acme`
}

// Run switches the kill switch on.
func (c *haltCmd) Run(ctx context.Context, p process) error {
	return c.halt(ctx, p, true, "halted: no call of tenant %s is started until countersign resume\n")
}

type resumeCmd struct{ database }

// Run switches the kill switch off.
func (c *resumeCmd) Run(ctx context.Context, p process) error {
	return c.halt(ctx, p, false, "resumed: calls of tenant %s are started again\n")
}

func (d database) halt(ctx context.Context, p process, halted bool, said string) error {
	s, err := d.open()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Halt(ctx, d.tenant(), halted, "countersign", "cli"); err != nil {
		return fmt.Errorf("tenant %s: %w", d.Tenant, err)
	}
	_, err = fmt.Fprintf(p.out, said, d.Tenant)
	return err
}
