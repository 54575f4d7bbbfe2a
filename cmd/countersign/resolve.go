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

type resolveCmd struct {
	people
	ID           string `arg:"" optional:"" help:"The call: its id, or the beginning or end of it."`
	Happened     bool   `help:"It took effect; --evidence says how you know." xor:"outcome"`
	DidNotHappen bool   `help:"It did not take effect." xor:"outcome"`
	Closed       bool   `help:"Nobody can find out." xor:"outcome"`
	Evidence     string `help:"How you know; kept, and told to the model." placeholder:"TEXT"`
	Output       string `help:"With --happened: what the tool would have answered, the JSON in this file (- for standard input)." placeholder:"FILE"`
}

// Help is shown below the flags' help.
func (resolveCmd) Help() string {
	return `A call whose outcome is unknown was started, and nobody knows whether it took effect: its worker died, or the tool's
answer was lost. It is never run again. Look where it would show, then say what you found, and the conversation goes on.
Without an id, such calls are listed; without an outcome, the call is shown with its attempts.

It is refused (exit code 3) while the last attempt may still be alive, or when something else stands already.

Examples:
  countersign resolve
  countersign resolve 4f2a91c0
  countersign resolve 4f2a91c0 --happened --evidence 'transfer 881 is on the statement'
  echo '{"id": 881}' | countersign resolve 4f2a91c0 --happened --evidence 'on the statement' --output -
  countersign resolve 4f2a91c0 --did-not-happen --evidence 'nothing on the statement'
  countersign resolve 4f2a91c0 --closed`
}

func (cmd *resolveCmd) Run(ctx context.Context, p process) error {
	resolution, err := cmd.resolution(p)
	if err != nil {
		return err
	}
	c, err := cmd.connect(p)
	if err != nil {
		return err
	}
	out := cmd.output(p)
	if cmd.ID == "" {
		calls, err := unknownCalls(ctx, c, "")
		if err != nil {
			return err
		}
		return listAttention(out, calls)
	}
	call, err := findUnknown(ctx, c, cmd.ID)
	if err != nil {
		return err
	}
	if resolution.Outcome == "" {
		return showCall(ctx, c, out, call)
	}
	answer, err := c.ResolveCall(ctx, call.ID, resolution)
	switch {
	case err != nil && out.json:
		return errors.Join(err, printProblem(out, err))
	case err != nil:
		return err
	case out.json:
		return out.document(answer.Raw)
	}
	tellResolution(out, answer, time.Now())
	return nil
}

// resolution reads the flags; without one of the three there is no outcome.
func (cmd *resolveCmd) resolution(p process) (r client.Resolution, err error) {
	r.Evidence = cmd.Evidence
	for outcome, chosen := range map[string]bool{
		"happened": cmd.Happened, "did-not-happen": cmd.DidNotHappen, "closed": cmd.Closed,
	} {
		if chosen {
			r.Outcome = outcome
		}
	}
	switch {
	case r.Outcome == "" && (cmd.Evidence != "" || cmd.Output != ""):
		return r, usagef("say what you found: --happened, --did-not-happen or --closed")
	case r.Outcome != "" && cmd.ID == "":
		return r, usagef("which call? `countersign resolve` lists those whose outcome is unknown")
	case cmd.Happened && cmd.Evidence == "":
		return r, usagef("--happened needs --evidence: how do you know?")
	case !cmd.Happened && cmd.Output != "":
		return r, usagef("--output belongs to --happened")
	}
	r.Output, err = readJSON(cmd.Output, p.in, "output")
	return r, err
}

// unknownCalls reads the calls whose outcome is unknown, oldest first.
func unknownCalls(ctx context.Context, c *client.Client, topic string) ([]client.Call, error) {
	calls := []client.Call{}
	filter := client.CallFilter{State: "outcome-unknown", Topic: topic, Paging: client.Paging{Limit: pageSize}}
	for call, err := range client.All(func(cursor string) (client.Page[client.Call], error) {
		filter.Cursor = cursor
		return c.Calls(ctx, filter)
	}) {
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// findUnknown gives the call that a person named: by its whole id, or by the
// beginning or the end of it among those whose outcome is unknown.
func findUnknown(ctx context.Context, c *client.Client, typed string) (client.Call, error) {
	if len(typed) == 36 {
		return c.Call(ctx, strings.ToLower(typed))
	}
	typed = strings.ToLower(strings.TrimLeft(typed, "…."))
	if len(typed) < shortest {
		return client.Call{}, usagef("%q is too short for an id: type at least %d characters of it", typed, shortest)
	}
	calls, err := unknownCalls(ctx, c, "")
	if err != nil {
		return client.Call{}, err
	}
	var found []client.Call
	for _, call := range calls {
		if named(call.ID, typed) {
			found = append(found, call)
		}
	}
	switch len(found) {
	case 0:
		return client.Call{}, fmt.Errorf("no call of unknown outcome has an id that begins or ends with %q; `countersign resolve` lists them", typed)
	case 1:
		return c.Call(ctx, found[0].ID) // with its attempts
	}
	return client.Call{}, usagef("%q names %d calls; type more of the id", typed, len(found))
}

func showCall(ctx context.Context, c *client.Client, out output, call client.Call) error {
	if out.json {
		return out.document(call.Raw)
	}
	input, err := c.CallInput(ctx, call.ID)
	if err != nil {
		return err
	}
	out.Call(call, input, time.Now())
	return nil
}

func tellResolution(out output, answer client.ResolutionAnswer, now time.Time) {
	call := answer.Call
	name := fmt.Sprintf("%s (%s) in %s", call.Tool, terminal.ShortID(call.ID), call.Topic)
	switch stands := call.Resolution; {
	case stands == nil:
		out.say("%s: %s", answer.Result, name)
	case answer.Result == "already-applied":
		out.say("resolved already as %s: %s, by %s %s ago", stands.Outcome, name, stands.ResolvedBy, terminal.Ago(stands.ResolvedAt, now))
	default:
		out.say("resolved as %s: %s, by %s; the turn is %s", stands.Outcome, name, stands.ResolvedBy, answer.Turn.State)
	}
}

// listAttention lists the calls that a person must look after.
func listAttention(out output, calls []client.Call) error {
	if out.json {
		return out.document(map[string]any{"items": documents(calls)})
	}
	if len(calls) == 0 {
		out.say("no call's outcome is unknown")
		return nil
	}
	showAttention(out, calls, time.Now())
	return nil
}

func documents(calls []client.Call) []json.RawMessage {
	out := make([]json.RawMessage, len(calls))
	for i, call := range calls {
		out[i] = call.Raw
	}
	return out
}

func showAttention(out output, calls []client.Call, now time.Time) {
	table := terminal.Table{Header: []string{"ID", "TOOL", "EFFECT", "TOPIC", "RESOLVABLE", "WHAT HAPPENED"}}
	for _, call := range calls {
		from := "now"
		if call.ResolvableAt.After(now) {
			from = terminal.Until(call.ResolvableAt, now)
		}
		table.Rows = append(table.Rows, []terminal.Cell{
			terminal.Text(terminal.ShortID(call.ID)), {Text: call.Tool, Style: terminal.Bold},
			{Text: call.Effect, Style: terminal.EffectStyle(call.Effect)}, terminal.Text(call.Topic), terminal.Text(from),
			terminal.Text(call.ErrorText),
		})
	}
	out.Table(table)
}
