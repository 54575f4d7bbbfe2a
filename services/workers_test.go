package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// I4: a worker is stopped beyond its leases while it runs a call of an unsafe
// tool and one of an idempotent tool, and then goes on. The unsafe one is run
// by nobody else, and its late result is accepted, once. The other one was
// run again meanwhile, and its first attempt is broken off.
func TestI4AWorkerThatSleptThroughItsLeases(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.startAPI(0)
	d.startContinuer(0)
	d.startWorker(0)
	d.ready()
	answer, brokenOff := make(chan struct{}), make(chan struct{})
	transfer := d.allowed("transfer", "unsafe", waits(answer, `"moved"`))
	index := d.allowed("index", "idempotent", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Countersign-Attempt") == "1" {
			<-r.Context().Done()
			close(brokenOff)
			return
		}
		fmt.Fprint(w, `"indexed"`)
	})
	calls := d.start("t", "transfer", "index")
	once, again := calls[0].ID, calls[1].ID
	eventually(t, "both run", called(transfer, 1))
	eventually(t, "both run", called(index, 1))
	d.startWorker(1)
	d.workers[1].ready()

	d.workers[0].signal(syscall.SIGSTOP)
	d.runIs(once, "outcome-unknown")
	if c := d.runIs(again, "succeeded"); len(c.Attempts) != 2 || c.Attempts[0].Outcome != "lease-lost" {
		t.Errorf("the idempotent one: %s", c.Raw)
	}
	d.workers[0].signal(syscall.SIGCONT)
	arrives(t, brokenOff, "the attempt that was replaced is broken off")
	close(answer)

	c := d.runIs(once, "succeeded")
	if c.State != "output-available" || len(c.Attempts) != 1 || len(transfer.ran()) != 1 {
		t.Errorf("the unsafe one ran %d times: %s", len(transfer.ran()), c.Raw)
	}
	if ran := index.ran(); len(ran) != 2 || ran[0].key != ran[1].key {
		t.Errorf("the idempotent one: %+v", ran)
	}
	if got, _ := d.output("t"); string(got) != `"moved"` {
		t.Errorf("the late result is %s", got)
	}
	d.continuation(c.Turn, "ready")
}

// I4: a worker dies by kill -9 in the middle of a run of a keyed tool. Another
// one tries again under the same key, so that the tool does it once.
func TestI4AKeyedRunGoesOnUnderItsKey(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.startAPI(0)
	d.startContinuer(0)
	d.startWorker(0)
	d.ready()
	pay := d.allowed("pay", "keyed", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Countersign-Attempt") == "1" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `"paid"`)
	})
	call := d.start("t", "pay")[0].ID
	eventually(t, "it runs", called(pay, 1))
	must(t, ignoreKilled(d.workers[0].stop(killed)))
	d.startWorker(1)
	c := d.runIs(call, "succeeded")
	ran := pay.ran()
	if len(ran) != 2 || ran[0].key == "" || ran[0].key != ran[1].key || ran[0].body != ran[1].body || ran[1].attempt != "2" {
		t.Errorf("attempts: %+v", ran)
	}
	if len(c.Attempts) != 2 || c.Attempts[0].Worker == c.Attempts[1].Worker {
		t.Errorf("attempts: %s", c.Raw)
	}
}

// A worker that is told to end takes nothing new, waits for what runs, writes
// its result, and ends well.
func TestAWorkerEndsWhatItHasBegun(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.startAPI(0)
	d.startContinuer(0)
	d.startWorker(0)
	d.ready()
	answer := make(chan struct{})
	build := d.allowed("build", "unsafe", waits(answer, `"built"`))
	begun := d.start("begun", "build")[0].ID
	eventually(t, "it runs", called(build, 1))

	d.workers[0].signal(syscall.SIGTERM)
	eventually(t, "the worker is stopping", func(context.Context) error {
		if !strings.Contains(d.workers[0].log.tail(1<<20), `"msg":"stopping"`) {
			return errors.New("it is not")
		}
		return nil
	})
	later := d.start("later", "build")[0].ID
	eventually(t, "the later call is hinted at", func(ctx context.Context) error { return d.hinted(ctx, later) })
	if c, err := d.node(0).Call(t.Context(), begun); err != nil || c.Run != "started" {
		t.Errorf("while it stops the run is %s, %v", c.Run, err)
	}
	close(answer)
	if err := d.workers[0].wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if c := d.runIs(begun, "succeeded"); len(c.Attempts) != 1 || c.Attempts[0].Outcome != "succeeded" {
		t.Errorf("what it had begun: %s", c.Raw)
	}
	if c, err := d.node(0).Call(t.Context(), later); err != nil || c.Run != "queued" {
		t.Errorf("what came later is %s, %v", c.Run, err)
	}
	d.startWorker(1)
	d.runIs(later, "succeeded")
}

// waits answers once it may.
func waits(may <-chan struct{}, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-may:
			fmt.Fprint(w, body)
		case <-r.Context().Done():
		}
	}
}

// called tells whether a tool was called n times.
func called(tool *toolServer, n int) func(context.Context) error {
	return func(context.Context) error {
		if ran := len(tool.ran()); ran != n {
			return fmt.Errorf("it was called %d times, want %d", ran, n)
		}
		return nil
	}
}

// arrives waits for a channel to be closed.
func arrives(t *testing.T, closed <-chan struct{}, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatalf("not in time: %s", what)
	}
}
