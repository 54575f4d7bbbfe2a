// Command modelserver is a model provider for trying things out: it speaks
// OpenAI's chat completions over HTTP, needs no key, and does what it is told.
//
//	go run ./examples/modelserver --listen 127.0.0.1:9090
//
// Point the model loop at it with COUNTERSIGN_MODEL_BASE_URL=http://127.0.0.1:9090/v1.
// Say "delete_file {"path": "old.log"}" to it, and it calls that tool.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/countersign/countersign/examples/modelserver/scripted"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("modelserver", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:9090", "`address` to listen on")
	pace := flags.Duration("pace", 60*time.Millisecond, "`time` between two chunks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: scripted.New(scripted.Paced(scripted.Obedient, *pace)), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
