package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
)

// I4: a worker is stopped beyond its leases while it runs a call of an unsafe
// tool and one of an idempotent tool, and then goes on. The unsafe one is run
// by nobody else, and its late result is accepted, once. The other one was
// run again meanwhile, and its first attempt is broken off.
func TestI4AWorkerThatSleptThroughItsLeases(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
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
	testcluster.Eventually(t, "both run", called(transfer, 1))
	testcluster.Eventually(t, "both run", called(index, 1))
	d.StartWorker(1)
	d.Workers[1].Ready()

	d.Workers[0].Signal(syscall.SIGSTOP)
	d.runIs(once, "outcome-unknown")
	if c := d.runIs(again, "succeeded"); len(c.Attempts) != 2 || c.Attempts[0].Outcome != "lease-lost" {
		t.Errorf("the idempotent one: %s", c.Raw)
	}
	d.Workers[0].Signal(syscall.SIGCONT)
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
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	pay := d.allowed("pay", "keyed", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Countersign-Attempt") == "1" {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `"paid"`)
	})
	call := d.start("t", "pay")[0].ID
	testcluster.Eventually(t, "it runs", called(pay, 1))
	d.Workers[0].Kill()
	d.StartWorker(1)
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
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0)
	d.Ready()
	answer := make(chan struct{})
	build := d.allowed("build", "unsafe", waits(answer, `"built"`))
	begun := d.start("begun", "build")[0].ID
	testcluster.Eventually(t, "it runs", called(build, 1))

	d.Workers[0].Signal(syscall.SIGTERM)
	testcluster.Eventually(t, "the worker is stopping", func(context.Context) error {
		if !strings.Contains(d.Workers[0].Log.Tail(1<<20), `"msg":"stopping"`) {
			return errors.New("it is not")
		}
		return nil
	})
	later := d.start("later", "build")[0].ID
	testcluster.Eventually(t, "the later call is hinted at", func(ctx context.Context) error { return d.hinted(ctx, later) })
	if c, err := d.Node(0).Call(t.Context(), begun); err != nil || c.Run != "started" {
		t.Errorf("while it stops the run is %s, %v", c.Run, err)
	}
	close(answer)
	if err := d.Workers[0].Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if c := d.runIs(begun, "succeeded"); len(c.Attempts) != 1 || c.Attempts[0].Outcome != "succeeded" {
		t.Errorf("what it had begun: %s", c.Raw)
	}
	if c, err := d.Node(0).Call(t.Context(), later); err != nil || c.Run != "queued" {
		t.Errorf("what came later is %s, %v", c.Run, err)
	}
	d.StartWorker(1)
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
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Fatalf("not in time: %s", what)
	}
}
