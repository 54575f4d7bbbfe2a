package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/failpoint"
)

// A Part is something that a service does until it is told to stop. Its Run
// blocks; when ctx ends it takes in nothing new, ends what it has, and
// returns. Returning before that is a failure, with nil too.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// ErrStoppedTooLate says that parts did not end within the grace time.
var ErrStoppedTooLate = errors.New("did not stop in time")

// Run starts the parts in order and runs them until ctx ends or one of them
// fails. Then it stops them in reverse order, each after the one before has
// ended: what brings work in is listed last and stops first. All together
// have grace. Whoever has not ended by then, or a moment later, is left behind
// and named in [ErrStoppedTooLate]: what is committed is safe, and the rest
// is found again by others.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, parts ...Part) error {
	ended := make(chan *running, len(parts))
	started := make([]*running, len(parts))
	for i, part := range parts {
		started[i] = start(context.WithoutCancel(ctx), part, ended)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping", "grace", grace.String())
		_ = failpoint.Hit(ctx, failpoint.DrainBefore)
	case first := <-ended:
		log.Error("a part ended; stopping the others", "part", first.name)
	}
	late := stopAll(started, grace)
	_ = failpoint.Hit(ctx, failpoint.DrainAfter)
	return errors.Join(failuresOf(started), late)
}

// running is a part on its way. err may be read once done is closed.
type running struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start gives the part a context of its own, so that the parts can be stopped
// one after the other.
func start(base context.Context, part Part, ended chan<- *running) *running {
	ctx, cancel := context.WithCancel(base)
	r := &running{name: part.Name, stop: cancel, done: make(chan struct{})}
	go func() {
		err := part.Run(ctx)
		switch {
		case ctx.Err() == nil && err == nil:
			r.err = fmt.Errorf("%s ended without being told to", part.Name)
		case err != nil && !errors.Is(err, context.Canceled):
			r.err = fmt.Errorf("%s: %w", part.Name, err)
		}
		close(r.done)
		ended <- r
	}()
	return r
}

// wait says whether the part ended before over did; when both are true, yes.
func (r *running) wait(over context.Context) bool {
	select {
	case <-r.done:
	case <-over.Done():
	}
	return r.ended()
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// lastMoment is for parts that are told to stop only when grace is over, since
// others before them used it up.
const lastMoment = time.Second

// stopAll stops the last first and returns who did not end in time.
func stopAll(started []*running, grace time.Duration) error {
	over, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, r := range slices.Backward(started) {
		r.stop()
		r.wait(over)
	}
	over, cancel = context.WithTimeout(context.Background(), lastMoment)
	defer cancel()
	var late []string
	for _, r := range started {
		if !r.wait(over) {
			late = append(late, r.name)
		}
	}
	if len(late) == 0 {
		return nil
	}
	return fmt.Errorf("%w (%v): %s", ErrStoppedTooLate, grace, strings.Join(late, ", "))
}

func failuresOf(started []*running) error {
	var failures []error
	for _, r := range started {
		if r.ended() {
			failures = append(failures, r.err)
		}
	}
	return errors.Join(failures...)
}
