// Command countersign is the operator's command: it shows what waits for a
// decision, and decides.
//
// Each command is a file with its name. The commands of people (inbox, show,
// approve, deny, resolve, watch, topics, redrive) use pkg/client like any other
// program, know no more than the HTTP contract, and share [people]: where the
// server is and how to show what it said. What they draw on a terminal is in
// the folder terminal.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/countersign/countersign/pkg/daemon"
)

// CLI lists the commands.
type CLI struct {
	Inbox   inboxCmd   `cmd:"" help:"List what waits for a decision, and what needs attention."`
	Show    showCmd    `cmd:"" help:"Show one card with everything that would run."`
	Approve approveCmd `cmd:"" help:"Approve a call, as shown or with another input."`
	Deny    denyCmd    `cmd:"" help:"Deny a call, with a reason for the model."`
	Resolve resolveCmd `cmd:"" help:"List calls whose outcome is unknown, and say what became of one."`
	Watch   watchCmd   `cmd:"" help:"Follow cards and topics live."`
	Topics  topicsCmd  `cmd:"" help:"List conversations and what they wait for."`
	Redrive redriveCmd `cmd:"" help:"Deliver failed continuations again."`
	Demo    demoCmd    `cmd:"" help:"Play a conversation, step by step."`
	Dev     devCmd     `cmd:"" help:"Run everything in one process, for a first look."`
	Migrate migrateCmd `cmd:"" help:"Bring the database to this version's schema."`
	Verify  verifyCmd  `cmd:"" help:"Hold the rows against the invariants: is anything lost, doubled, stranded or tampered with?"`
	Halt    haltCmd    `cmd:"" help:"Start no calls of a tenant any more: the kill switch."`
	Resume  resumeCmd  `cmd:"" help:"Start calls of a tenant again."`
	Bench   benchCmds  `cmd:"" help:"Measure round trips per second, next to what the database could do; or what open streams cost."`

	Workspace workspaceCmd `cmd:"" hidden:"" help:"Serve the demo's folder as an MCP server over stdio."`
}

func main() {
	daemon.CollectSeldom(os.Getenv) // dev and bench run nodes in this process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], process{os.Getenv, os.Stdin, os.Stdout, os.Stderr}))
}

// process is what a command sees of its surroundings.
type process struct {
	getenv func(string) string
	in     io.Reader
	out    io.Writer
	err    io.Writer
}

// run performs one command and gives the exit code.
func run(ctx context.Context, args []string, p process) int {
	var cli CLI
	exited := -1
	parser := kong.Must(&cli, kong.Name("countersign"), kong.Description(description),
		kong.Writers(p.out, p.err), kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(p))
	command, err := parser.Parse(args)
	switch {
	case exited >= 0: // --help has printed itself
		return exited
	case err != nil:
		fmt.Fprintf(p.err, "countersign: %v; see countersign --help\n", err)
		return exitUsage
	}
	return report(p, command.Run())
}

const description = `Human approval for the tool calls of chat models.

The commands for people find a running "countersign dev" by its data folder; for any other server set
COUNTERSIGN_URL and COUNTERSIGN_API_KEY. On a terminal they print tables, otherwise one JSON document.

Exit codes: 0 done, 1 error (verify: or violated), 2 usage, 3 decided otherwise or changed meanwhile, 4 no longer open.`
