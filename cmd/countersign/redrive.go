package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

type redriveCmd struct {
	people
	ID  string `arg:"" optional:"" help:"The continuation (its turn's id), or the beginning or end of it."`
	All bool   `help:"All that failed."`
}

// Help is shown below the flags' help.
func (redriveCmd) Help() string {
	return `Without an id, what failed is listed. A continuation fails when its sink could not be reached for a day.

Examples:
  countersign redrive
  countersign redrive 91c04f2a
  countersign redrive --all`
}

func (cmd *redriveCmd) Run(ctx context.Context, p process) error {
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	out := cmd.output(p)
	if len(cmd.ID) == 36 {
		return redrive(ctx, c, out, []client.Continuation{{ID: strings.ToLower(cmd.ID)}})
	}
	failed, err := failedContinuations(ctx, c)
	switch {
	case err != nil:
		return err
	case cmd.All:
		return redrive(ctx, c, out, failed)
	case cmd.ID == "":
		return showFailed(out, failed)
	}
	var found []client.Continuation
	for _, continuation := range failed {
		if named(continuation.ID, strings.ToLower(cmd.ID)) {
			found = append(found, continuation)
		}
	}
	if len(found) != 1 {
		return usagef("%q names %d failed continuations; `countersign redrive` lists them", cmd.ID, len(found))
	}
	return redrive(ctx, c, out, found)
}

func failedContinuations(ctx context.Context, c *client.Client) ([]client.Continuation, error) {
	failed := []client.Continuation{}
	filter := client.ContinuationFilter{State: "failed", Paging: client.Paging{Limit: pageSize}}
	for continuation, err := range client.All(func(cursor string) (client.Page[client.Continuation], error) {
		filter.Cursor = cursor
		return c.Continuations(ctx, filter)
	}) {
		if err != nil {
			return nil, err
		}
		failed = append(failed, continuation)
	}
	return failed, nil
}

// redrive makes each ready again; one that cannot be does not stop the rest.
func redrive(ctx context.Context, c *client.Client, out output, list []client.Continuation) error {
	var errs []error
	done := []string{}
	for _, continuation := range list {
		if _, err := c.Redrive(ctx, continuation.ID); err != nil {
			errs = append(errs, fmt.Errorf("redrive %s: %w", continuation.ID, err))
			continue
		}
		done = append(done, continuation.ID)
	}
	if out.json {
		return errors.Join(append(errs, out.document(map[string]any{"redriven": done}))...)
	}
	for _, id := range done {
		out.say("ready again: %s", id)
	}
	if len(list) == 0 {
		out.say("no continuation has failed")
	}
	return errors.Join(errs...)
}

func showFailed(out output, failed []client.Continuation) error {
	if out.json {
		return out.document(client.Page[client.Continuation]{Items: failed})
	}
	if len(failed) == 0 {
		out.say("no continuation has failed")
		return nil
	}
	table := terminal.Table{Header: []string{"ID", "TOPIC", "TRIES", "LAST ERROR"}}
	for _, continuation := range failed {
		table.Rows = append(table.Rows, []terminal.Cell{
			terminal.Text(terminal.ShortID(continuation.ID)), {Text: continuation.Topic, Style: terminal.Bold},
			terminal.Text(fmt.Sprint(continuation.Deliveries)), terminal.Text(continuation.LastError),
		})
	}
	out.Table(table)
	return nil
}
