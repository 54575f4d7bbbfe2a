// Command chat is an example of a chat backend that uses Countersign, with a
// scripted model that needs no key:
//
//	go run ./examples/chat --url http://127.0.0.1:8787 --key cs_…
//
// It answers what people write on Countersign's page. Start it twice, stop one
// in the middle of an answer: the conversation goes on, once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/countersign/countersign/examples/chat/backend"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stderr io.Writer) error {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", getenv("COUNTERSIGN_URL"), "`address` of Countersign; COUNTERSIGN_URL by default")
	key := flags.String("key", getenv("COUNTERSIGN_API_KEY"), "API `key` with the roles backend and admin; COUNTERSIGN_API_KEY by default")
	listen := flags.String("listen", "127.0.0.1:0", "`address` to receive webhooks on; empty to poll")
	think := flags.Duration("think", 800*time.Millisecond, "`time` that the model takes over an answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *url == "" || *key == "" {
		return fmt.Errorf("name the server and the key with --url and --key, or COUNTERSIGN_URL and COUNTERSIGN_API_KEY")
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	return backend.Run(ctx, backend.Options{URL: *url, Key: *key, Listen: *listen, Think: *think, Log: log})
}
