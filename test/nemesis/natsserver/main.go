// Natsserver is a NATS server with JetStream as a process of its own, which
// can be killed, and paused, as one within another process cannot.
//
// It is told by the environment: NATSSERVER_LISTEN is its address,
// NATSSERVER_DIR the folder of its streams.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/countersign/countersign/internal/localservers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("NATSSERVER_LISTEN"), os.Getenv("NATSSERVER_DIR")); err != nil {
		fmt.Fprintln(os.Stderr, "natsserver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, dir string) error {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("NATSSERVER_LISTEN: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("NATSSERVER_LISTEN: %w", err)
	}
	server, err := localservers.StartNATS(ctx, localservers.NATSOptions{Dir: dir, Port: port, Log: os.Stderr})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}
