package model

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
)

// self is who registers the turns of the loop: they are asked for by whoever
// asked for the turn before.
const self = "model"

// answering is one turn that the loop has opened.
type answering struct {
	*Loop
	from   approval.Origin
	turn   *model.Turn // the live one
	ask    model.Ask
	stream *approval.Stream
}

// answer goes on from a turn. nil means that the hint is done with: the
// continuation was answered, or is somebody else's. What makes us panic must
// not end every worker that is hinted at it: what it had opened is lost with
// its lease.
func (l *Loop) answer(tenant model.TenantID, id model.TurnID, traceparent string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			l.log.Error("an answer made the worker panic", "turn", id, "panic", r, "stack", string(debug.Stack()))
			err = nil
		}
	}()
	// Detached from whatever stops the intake: work that has begun is finished.
	ctx := step.Under(context.Background(), traceparent)
	asked, err := l.read(ctx, tenant, id)
	if err != nil || asked == nil {
		return err
	}
	ctx, span := l.tracer.Start(ctx, "answer", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("countersign.topic", string(asked.Topic)), attribute.String("countersign.continues", string(id))))
	defer span.End()
	a, err := l.accept(ctx, asked)
	if err != nil {
		return theirs(err)
	}
	span.SetAttributes(attribute.String("countersign.turn", string(a.turn.ID)))
	return a.run(ctx)
}

// commitTimeout bounds a wait for a read or a commit; a commit itself goes on.
const commitTimeout = 20 * time.Second

// read finds the turn that is to be gone on from; nil where there is nothing
// to do.
func (l *Loop) read(ctx context.Context, tenant model.TenantID, id model.TurnID) (*model.Turn, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := failpoint.Hit(ctx, failpoint.ReceiveBeforeRead); err != nil {
		return nil, err
	}
	t, err := l.store.Turn(ctx, tenant, id)
	if err == nil && (t.Sink.Type != model.SinkModel || t.Hold != nil) {
		return nil, nil
	}
	if err == nil {
		err = t.Acceptable()
	}
	if err != nil {
		return nil, theirs(err)
	}
	t.Tenant = tenant
	return t, nil
}

// theirs: a continuation that somebody else has, or that is over, is done with
// as far as this hint goes.
func theirs(err error) error {
	for _, over := range []error{
		model.ErrContinuationAccepted, model.ErrContinuationEnded, model.ErrTurnEnded, model.ErrTurnOpen, model.ErrNotFound,
		model.ErrFenceLost,
	} {
		if errors.Is(err, over) {
			return nil
		}
	}
	return err
}

// accept opens the next turn live; of all that try, one gets it. It hands on
// for whom and how the turn before was made.
func (l *Loop) accept(ctx context.Context, asked *model.Turn) (*answering, error) {
	by := model.Principal{Tenant: asked.Tenant, Subject: self}
	from := approval.Origin{By: by, Channel: self, Traceparent: step.Traceparent(ctx)}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	out, err := l.cases.Register(ctx, from, asked.Topic, approval.TurnRequest{
		Continues: string(asked.ID), Live: true, Lease: approval.StreamLease.String(), RequestedBy: asked.RequestedBy,
		Execution: string(asked.Execution), Sink: approval.RequestOf(asked.Sink), WhileOpen: string(store.WhileOpenParallel),
	})
	if err != nil {
		return nil, err
	}
	out.Turn.Tenant = asked.Tenant
	return &answering{Loop: l, from: from, turn: out.Turn, ask: l.asks(asked.Sink.Ask)}, nil
}

// asks completes what a turn says with the worker's settings.
func (l *Loop) asks(said model.Ask) model.Ask {
	if said.Model == "" {
		said.Model = l.o.Ask.Model
	}
	if said.System == "" {
		said.System = l.o.Ask.System
	}
	return said
}

// attempts bounds how often a provider is asked for one turn.
const attempts = 5

// run asks the provider until the turn is over.
func (a *answering) run(ctx context.Context) error {
	fence := a.turn.Live.Fence
	var last error
	for n := range attempts {
		err := a.begin(ctx, fence)
		if err != nil {
			return theirs(err)
		}
		fence = a.stream.Writer.Fence
		err = a.try(ctx)
		var failed *Failure
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &failed):
			return a.leave(ctx, err)
		case a.stream.Committed():
			// What it called stands; the model is asked again with the results.
			a.log.WarnContext(ctx, "the model's provider failed after a call was committed", "turn", a.turn.ID, "err", err)
			return a.leave(ctx, nil)
		}
		last = err
		if failed.ForGood || n == attempts-1 {
			break
		}
		a.log.InfoContext(ctx, "the model's provider failed, it is asked again", "turn", a.turn.ID, "attempt", n+1, "err", err)
		if err := a.pause(ctx, failed.wait(n)); err != nil {
			return a.leave(ctx, err)
		}
	}
	return a.abandon(ctx, last)
}

// begin begins a stream of the turn; whatever an earlier one of it said does
// not count, and the windows are told.
func (a *answering) begin(ctx context.Context, fence int64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	a.stream, err = a.cases.Stream(ctx, a.from, a.turn.Topic, a.turn.ID, approval.StreamRequest{
		Fence: fence, Token: a.turn.Live.Token, ExpiresIn: a.o.Expiry.String(),
	})
	return err
}

// leave gives up the turn as it was committed: the sweep closes it at once
// instead of when its lease runs out, and any worker goes on.
func (a *answering) leave(ctx context.Context, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if why != nil && theirs(why) == nil {
		a.log.InfoContext(ctx, "the turn was taken away while the model answered", "turn", a.turn.ID, "err", why)
		return nil
	}
	if why != nil {
		a.log.WarnContext(ctx, "an answer was broken off, another worker goes on", "turn", a.turn.ID, "err", why)
	}
	if err := theirs(a.stream.Leave(ctx)); err != nil {
		a.log.WarnContext(ctx, "the turn could not be left, its lease will run out", "turn", a.turn.ID, "err", err)
	}
	return nil
}

// abandon ends the turn without an answer: the conversation says error until
// somebody redrives it.
func (a *answering) abandon(ctx context.Context, why error) error {
	a.log.WarnContext(ctx, "the model could not be asked", "turn", a.turn.ID, "topic", a.turn.Topic, "err", why)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := a.stream.Abandon(ctx, "The model could not be asked: "+why.Error()+"."); err != nil {
		return a.leave(ctx, err)
	}
	return nil
}

var errStopping = errors.New("this worker stops")

// pause waits before the provider is asked again, and keeps the lease.
func (a *answering) pause(ctx context.Context, d time.Duration) error {
	over := time.After(d)
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	for {
		select {
		case <-over:
			return nil
		case <-a.hard.Done():
			return errStopping
		case <-renew.C:
			if err := a.renew(ctx); err != nil {
				return err
			}
		}
	}
}

const renewEvery = approval.StreamLease / 3

func (a *answering) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if err := a.stream.Renew(ctx); err != nil {
		return fmt.Errorf("the lease could not be renewed: %w", err)
	}
	return nil
}
