// Command workspace serves a folder of files to MCP clients over standard
// input and output:
//
//	go run ./examples/workspace --root DIR
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/countersign/countersign/examples/workspace/workspace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "workspace:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("workspace", flag.ContinueOnError)
	flags.SetOutput(stderr)
	root := flags.String("root", "", "the `folder` to serve; it must exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *root == "" {
		return fmt.Errorf("name the folder to serve with --root DIR")
	}
	return workspace.Serve(ctx, *root)
}
