// Toolserver is the tool of package ledger as a process of its own, which can
// be killed, and which kills itself when a call asks for that.
//
// It is told by the environment: TOOLSERVER_LISTEN is its address,
// TOOLSERVER_LEDGER the file it writes.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/countersign/countersign/test/nemesis/ledger"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("TOOLSERVER_LISTEN"), os.Getenv("TOOLSERVER_LEDGER")); err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address, path string) error {
	if address == "" || path == "" {
		return errors.New("TOOLSERVER_LISTEN and TOOLSERVER_LEDGER must be set")
	}
	file, err := ledger.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	server := &http.Server{Addr: address, Handler: ledger.NewServer(file).Handler()}
	closed := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer closed()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
