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

// Main runs a program and exits: with 0 when run returns nil or [ErrHelp],
// with 1 and the error on stderr otherwise.
//
// The first SIGTERM or SIGINT cancels run's context, on which [Run] and
// [Serve] end in order. The second exits at once, with 130.
func Main(run func(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error) {
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
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	if err != nil && !errors.Is(err, ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
	os.Exit(0)
}
