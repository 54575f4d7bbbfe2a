package main

import (
	"context"

	"github.com/countersign/countersign/cmd/countersign/demo"
	"github.com/countersign/countersign/cmd/countersign/terminal"
)

type demoCmd struct {
	people
	Yes bool `help:"Approve by itself, instead of asking."`
}

// Help is shown below the flags' help.
func (demoCmd) Help() string {
	return `Plays a conversation against a running system, such as "countersign dev": the model's harmless call runs, its
dangerous one waits for you. Answer here, on the page, or with the other commands.

Examples:
  countersign demo
  countersign demo --yes`
}

// Run plays the demo once.
func (cmd *demoCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	page := cmd.URL
	if page == "" {
		dev, err := cmd.development(p)
		if err != nil {
			return err
		}
		page = dev.URL
	}
	return demo.Run(ctx, demo.Options{Client: c, URL: page, Screen: terminal.Open(p.out, p.getenv), In: p.in, Yes: cmd.Yes})
}
