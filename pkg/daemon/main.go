package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// A Command is what a main does.
type Command = func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error

// Main runs a program and exits: with 0 when run returns nil or [ErrHelp],
// with 1 and the error on stderr otherwise.
//
// The first SIGTERM or SIGINT cancels run's context, on which [Run] and
// [Serve] end in order. The second exits at once, with 130.
//
// Called as "program healthcheck URL" it asks that URL instead, and exits with
// 0 when the answer is 200.
func Main(run Command) {
	CollectSeldom(os.Getenv)
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "stopping; a second signal ends at once")
		cancel()
		<-signals
		os.Exit(130)
	}()
	err := command(run)(ctx, os.Args[1:], os.Getenv, os.Stdout)
	if err != nil && !errors.Is(err, ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
	os.Exit(0)
}

func command(run Command) Command {
	if len(os.Args) == 3 && os.Args[1] == healthcheckCommand {
		return func(ctx context.Context, args []string, _ func(string) string, _ io.Writer) error {
			return healthcheck(ctx, args[1])
		}
	}
	return run
}
