package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/internal/bugs"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/worker/tool"
)

const (
	// prepareTimeout bounds connecting to a tool's server.
	prepareTimeout = 15 * time.Second
	// prepareFor is how long preparation is tried before the call is stopped.
	prepareFor = 15 * time.Minute
	// commitTimeout bounds a wait for a commit; the commit itself goes on.
	commitTimeout = 20 * time.Second
)

// later says that the call cannot be run now, and when to look again.
type later struct {
	after time.Duration
	why   error
}

func (l *later) Error() string { return fmt.Sprintf("to be tried again in %s: %v", l.after, l.why) }
func (l *later) Unwrap() error { return l.why }

func isLater(err error) (time.Duration, bool) {
	if l, ok := errors.AsType[*later](err); ok {
		return l.after, true
	}
	return 0, false
}

// call takes one call from its row to its committed result. nil means that
// the hint is done with: the call was run, stopped, or is somebody else's. One
// call that makes us panic must not end the others, nor every worker that is
// hinted at it: it is given back, and what it had claimed is lost with its
// lease.
func (w *Worker) call(tenant model.TenantID, id model.CallID, traceparent string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			w.log.Error("a call made the worker panic", "call", id, "panic", r, "stack", string(debug.Stack()))
			err = &later{after: 5 * time.Second, why: errPanicked}
		}
	}()
	// Detached from whatever stops the intake: work that has begun is finished.
	ctx := step.Under(context.Background(), traceparent)
	p, err := w.read(ctx, tenant, id)
	if err != nil || p.Call.Run != model.RunQueued && !bugs.NoClaim {
		return err
	}
	ctx, span := w.tracer.Start(ctx, "run "+p.Call.Tool.Name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("countersign.call", string(id)), attribute.String("countersign.topic", string(p.Topic))))
	defer span.End()
	if text, stopped := forbidden(tenant, p); stopped {
		return w.store.StopQueued(ctx, tenant, id, text)
	}
	ready, err := w.prepare(ctx, tenant, p)
	if err != nil || ready == nil {
		return err
	}
	return w.claimAndRun(ctx, tenant, p, ready)
}

func (w *Worker) read(ctx context.Context, tenant model.TenantID, id model.CallID) (store.Prepared, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := failpoint.Hit(ctx, failpoint.ReceiveBeforeRead); err != nil {
		return store.Prepared{}, err
	}
	return w.store.Prepare(ctx, tenant, id)
}

// forbidden asks again, right before the run, what may have changed since the
// approval: the bytes, the definition, the denies (I5).
func forbidden(tenant model.TenantID, p store.Prepared) (text string, stop bool) {
	c := p.Call
	digest := model.Digest(tenant, c.ID, c.Tool.Name, c.Tool.Definition, p.Input)
	switch {
	case !bytes.Equal(digest, c.Digest):
		return "The input is not the one that was approved. The tool did not run.", true
	case p.Current == nil:
		return "The tool is gone. It did not run.", true
	case !bytes.Equal(p.Current, c.Tool.Definition):
		return "The tool's definition changed after it was approved. The tool did not run.", true
	}
	subject := policy.Subject{Tool: p.Definition, Server: p.Server, Known: true}
	if reason, denied := policy.Denied(subject, p.Policies); denied {
		return reason + " The tool did not run.", true
	}
	return "", false
}

// prepare connects to the tool without an effect. A call that cannot be
// prepared for good, or not for a quarter of an hour, is stopped; then there
// is neither a ready tool nor an error.
func (w *Worker) prepare(ctx context.Context, tenant model.TenantID, p store.Prepared) (tool.Ready, error) {
	ctx, at := w.steps.Begin(ctx, "prepare")
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	ready, err := w.connect(ctx, p)
	at.End(err)
	switch {
	case err == nil:
		return ready, nil
	case errors.Is(err, tool.ErrForGood), p.Waited > prepareFor:
		text := fmt.Sprintf("The tool could not be prepared: %v. It did not run.", err)
		return nil, w.store.StopQueued(context.WithoutCancel(ctx), tenant, p.Call.ID, text)
	}
	w.log.InfoContext(ctx, "a tool could not be prepared, it is tried again", "call", p.Call.ID, "tool", p.Call.Tool.Name, "err", err)
	return nil, &later{after: 5 * time.Second, why: err}
}

var errPanicked = errors.New("the tool's executor panicked")

// connect is the executor's part of the preparation. One that panics may have
// met something that passes; if not, the call's time for preparation ends.
func (w *Worker) connect(ctx context.Context, p store.Prepared) (ready tool.Ready, err error) {
	defer func() {
		if r := recover(); r != nil {
			w.log.ErrorContext(ctx, "a tool's executor panicked", "call", p.Call.ID, "panic", r)
			ready, err = nil, errPanicked
		}
	}()
	runner, err := w.tools.Runner(p)
	if err != nil {
		return nil, err
	}
	return runner.Prepare(ctx)
}

func (w *Worker) claimAndRun(ctx context.Context, tenant model.TenantID, p store.Prepared, ready tool.Ready) error {
	defer ready.Release()
	if w.hard.Err() != nil {
		return &later{after: time.Second, why: w.hard.Err()}
	}
	if err := failpoint.Hit(ctx, failpoint.ClaimBefore); err != nil {
		return err
	}
	token, begin := model.NewToken(), time.Now()
	claimed, err := w.claim(ctx, tenant, p, token, begin)
	if err != nil && (!bugs.NoClaim || !errors.Is(err, model.ErrNotClaimable)) {
		return notClaimed(err)
	}
	// Both by the database's clock, as is every time of a row.
	w.meters.waited(ctx, claimed.Call.LeaseUntil.Add(-w.o.Lease).Sub(claimed.Call.QueuedAt))
	run := &ownedRun{tenant: tenant, call: p.Call.ID, fence: claimed.Call.Fence, token: token,
		once: p.Call.Tool.Effect == model.EffectUnsafe, until: begin.Add(w.o.Lease)}
	w.owned.add(run)
	defer w.owned.remove(run)
	result := w.run(ctx, p, ready, run)
	return w.finish(ctx, tenant, p.Call.ID, run, result)
}

// claim commits the start. A claim that the database could not answer for may
// have been committed all the same: it is asked for again under its token, so
// that a call which nobody sent does not end as one whose outcome is unknown.
func (w *Worker) claim(ctx context.Context, tenant model.TenantID, p store.Prepared, token string, begin time.Time) (store.Claimed, error) {
	ctx, at := w.steps.Begin(ctx, "claim")
	for {
		claimed, err := w.store.Claim(ctx, tenant, p.Call.ID, model.Claim{
			Token: token, Worker: w.o.Name, Lease: w.o.Lease, Digest: p.Call.Digest,
		})
		if !errors.Is(err, model.ErrUnavailable) || time.Since(begin) > w.o.Lease || w.hard.Err() != nil || bugs.LostCommit {
			at.End(err)
			return claimed, err
		}
		w.log.WarnContext(ctx, "a claim could not be committed, it is asked for again", "call", p.Call.ID, "err", err)
		time.Sleep(time.Second)
	}
}

// notClaimed: a call that somebody else has, or that was stopped, is done
// with as far as this hint goes. One that waits for its next attempt is
// hinted at again by the sweep.
func notClaimed(err error) error {
	if errors.Is(err, model.ErrNotClaimable) || errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}

// run sends the call, within the tool's time, and not beyond the lease where
// another attempt may follow it.
func (w *Worker) run(ctx context.Context, p store.Prepared, ready tool.Ready, run *ownedRun) model.Result {
	if err := w.mayBegin(ctx, run); err != nil {
		return model.Result{Kind: model.ResultNothingSent, Text: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.Definition.Timeout))
	defer cancel()
	stop := context.AfterFunc(w.hard, cancel)
	defer stop()
	run.cancelWith(cancel)
	begin := time.Now()
	ctx, at := w.steps.Begin(ctx, "execute", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.Int64("countersign.attempt", run.fence), attribute.Int("countersign.input.bytes", len(p.Input))))
	result := w.protect(ctx, ready, tool.Call{ID: p.Call.ID, Attempt: run.fence, IdempotencyKey: string(p.Call.ID), Input: p.Input})
	at.Note(attribute.String("countersign.outcome", string(result.Kind)), attribute.Int("countersign.output.bytes", len(result.Output)))
	at.End(notDone(result))
	w.meters.ran(ctx, p.Call.Tool.Name, string(result.Kind), time.Since(begin))
	return result
}

var errTooLate = errors.New("the claim took too long")

// mayBegin is asked right before the first outside byte.
func (w *Worker) mayBegin(ctx context.Context, run *ownedRun) error {
	if err := failpoint.Hit(ctx, failpoint.RunBeforeCheck); err != nil {
		return err
	}
	if run.left() < w.o.Lease/2 {
		// The claim was found late: too little is left of its lease.
		return errTooLate
	}
	return failpoint.Hit(ctx, failpoint.RunBeforeSend)
}

var errNotDone = errors.New("the tool is not known to have done it")

func notDone(r model.Result) error {
	if r.Kind == model.ResultSucceeded {
		return nil
	}
	return errNotDone
}

// protect turns a panic of an executor into what it is: an unknown outcome.
func (w *Worker) protect(ctx context.Context, ready tool.Ready, c tool.Call) (result model.Result) {
	defer func() {
		if r := recover(); r != nil {
			w.log.ErrorContext(ctx, "a tool's executor panicked", "call", c.ID, "panic", r)
			result = model.Result{Kind: model.ResultUnknown, Text: "The tool's executor failed while it ran."}
		}
	}()
	result = ready.Run(ctx, c)
	if lost := failpoint.Hit(ctx, failpoint.RunAfterEffect); lost != nil {
		return model.Result{Kind: model.ResultUnknown, Text: lost.Error()}
	}
	return result
}
