package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// finish commits the result. While the database is away it tries again, for as
// long as that takes: the sweep may have judged the attempt by its effect
// meanwhile, but the truth is accepted late where nothing else took its place,
// and spares a person the search for it (I4). What the database refuses for
// another reason is tried until the lease has run out.
func (w *Worker) finish(ctx context.Context, tenant model.TenantID, call model.CallID, run *ownedRun, r model.Result) error {
	ctx, at := w.steps.Begin(context.WithoutCancel(ctx), "finish")
	for {
		attempt, cancel := context.WithTimeout(ctx, commitTimeout)
		_, err := w.store.Finish(attempt, tenant, call, run.fence, run.token, r)
		cancel()
		if err == nil || !retryable(err) || !away(err) && run.left() < -w.o.Lease || w.hard.Err() != nil {
			at.End(err)
			return w.finished(ctx, call, err)
		}
		w.log.WarnContext(ctx, "a result could not be committed, it is tried again", "call", call, "err", err)
		time.Sleep(time.Second)
	}
}

// away: the database did not answer.
func away(err error) bool {
	return errors.Is(err, model.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

func retryable(err error) bool {
	return !errors.Is(err, model.ErrFenceLost) && !errors.Is(err, model.ErrNotFound) && !errors.Is(err, model.ErrResultConflict) &&
		!errors.Is(err, model.ErrIllegalTransition)
}

// finished: an attempt that was taken away is no fault of this hint.
func (w *Worker) finished(ctx context.Context, call model.CallID, err error) error {
	if errors.Is(err, model.ErrFenceLost) {
		w.log.WarnContext(ctx, "the attempt was taken away before its result", "call", call)
		return nil
	}
	return err
}
