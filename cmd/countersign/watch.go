package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/client"
)

type watchCmd struct {
	people
	Topics []string      `arg:"" optional:"" name:"topic" help:"Follow these topics only (default: all)."`
	Every  time.Duration `help:"How often to look for what no stream has told." default:"2s"`
}

// Help is shown below the flags' help.
func (watchCmd) Help() string {
	return `Prints a line for each new card, each decision and each change of a topic's status, until interrupted. With
--json each line is a JSON document.

Examples:
  countersign watch
  countersign watch chat-42
  countersign watch --json | jq -r 'select(.event == "card") | .approval.id'`
}

func (cmd *watchCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	w := newWatcher(c, cmd.Topics, cmd.output(p))
	defer w.streams.stop()
	tick := time.NewTicker(max(cmd.Every, 200*time.Millisecond))
	defer tick.Stop()
	lost := false
	for {
		err := w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case refused(err):
			return err
		case err != nil && !lost:
			fmt.Fprintf(p.err, "countersign: %s; trying again\n", visible.Line(err.Error()))
		}
		lost = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-w.streams.changed:
		case <-tick.C:
		}
	}
}

// refused tells whether looking again cannot help.
func refused(err error) bool {
	problem, ok := errors.AsType[*client.Problem](err)
	return ok && problem.Status < 500 && problem.Status != 429
}
