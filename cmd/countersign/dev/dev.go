package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/internal/owner"
	"github.com/countersign/countersign/pkg/daemon"
	worker "github.com/countersign/countersign/services/worker/server"
)

// Options are what `countersign dev` may be told.
type Options struct {
	Dir       string   // the data folder
	Listen    string   // of the API and the page
	Origins   []string // whose pages may use the API with a person's token
	ReadyFile string   // written once everything answers; "" for none
	// Servers to use instead of starting them; empty ones are started.
	DatabaseURL, NATSURL, RedisURL string
	Model                          worker.ModelConfig // who answers continuations that go to the model loop
	Out                            io.Writer
	Program                        string // how this command was called, for what to type next; "" is countersign
}

// grace is how long the services have to end what they do.
const grace = 20 * time.Second

// Run runs everything until ctx ends, then stops it, the services before the
// servers.
func Run(ctx context.Context, o Options) (err error) {
	begin := time.Now()
	say := func(line string) { fmt.Fprintf(o.Out, "countersign: %s\n", line) }
	folder, err := hold(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Release()) }()
	if err := free(o.Listen); err != nil {
		return err
	}
	log, closeLog, err := openLog(o)
	if err != nil {
		return err
	}
	defer closeLog()
	say("starting Postgres, NATS and Redis")
	s, err := startServers(ctx, o, say)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	state, err := bootstrap(ctx, o, s)
	if err != nil {
		return err
	}
	state.URL = "http://" + o.Listen
	return serve(ctx, o, s, state, log, begin)
}

// serve runs the services and the demo, tells that they are ready, and waits
// for the end.
func serve(ctx context.Context, o Options, s *servers, state devstate.State, log *slog.Logger, begin time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, part := range append(services(o, s, log), chatBackend(state, log)) {
		running.Go(func() {
			if err := part.Run(ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", part.Name, err))
			} else {
				cancel(nil)
			}
		})
	}
	for _, gone := range s.gone {
		go func() {
			select {
			case <-gone:
				cancel(fmt.Errorf("a server ended by itself; its log is in %s", o.Dir))
			case <-ctx.Done():
			}
		}()
	}
	err := announce(ctx, o, state, begin)
	if err == nil {
		<-ctx.Done()
		fmt.Fprintln(o.Out, "\ncountersign: stopping")
	}
	cancel(err)
	running.Wait()
	removed := devstate.Remove(o.Dir)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return errors.Join(err, removed)
}

// announce waits until everything answers, writes it down, and says what to
// do next.
func announce(ctx context.Context, o Options, state devstate.State, begin time.Time) error {
	if err := waitReady(ctx, state.URL); err != nil {
		return err
	}
	if err := setUpDemo(ctx, o, state); err != nil {
		return err
	}
	if err := devstate.Write(o.Dir, state); err != nil {
		return err
	}
	if o.ReadyFile != "" {
		if err := devstate.WriteFile(o.ReadyFile, state); err != nil {
			return err
		}
	}
	return printWelcome(o.Out, o, state, time.Since(begin))
}

func hold(dir string) (*owner.Folder, error) {
	// Postgres may run as another user, who must be able to get in.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made; choose another with --data: %w", err)
	}
	folder, err := owner.Hold(dir)
	if errors.Is(err, owner.ErrTaken) {
		return nil, fmt.Errorf("%w; stop it, or choose another data folder with --data", err)
	}
	return folder, err
}

// free finds out early whether the address can be had.
func free(listen string) error {
	l, err := daemon.Listen(listen, "--listen or COUNTERSIGN_LISTEN")
	if err != nil {
		return err
	}
	return l.Close()
}

// openLog gives the services' log: all of it in the data folder, and what
// needs attention on the terminal.
func openLog(o Options) (*slog.Logger, func(), error) {
	file, err := os.OpenFile(filepath.Join(o.Dir, "countersign.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	all := daemon.NewLogger(file, "text", "info")
	warnings := daemon.NewLogger(o.Out, "auto", "warn")
	return slog.New(slog.NewMultiHandler(all.Handler(), warnings.Handler())), func() { _ = file.Close() }, nil
}

func waitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the api did not become ready within a minute"))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !answers(ctx, url+"/readyz") {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
