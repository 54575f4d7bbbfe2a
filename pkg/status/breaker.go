package status

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// probeEvery is how long a server that failed is left alone.
const probeEvery = time.Second

// errCallerGone marks a failure that says nothing about the server: the
// caller's own context ended.
var errCallerGone = errors.New("the caller went away")

// newBreaker opens with the first failure, which the client has retried once
// already: every further call would cost its caller the same wait.
func (c *Cache) newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "redis",
		Timeout:     probeEvery,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= 1 },
		IsExcluded:  func(err error) bool { return errors.Is(err, errCallerGone) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case to == gobreaker.StateClosed:
				c.log.Info("Redis answers again")
			case from == gobreaker.StateClosed:
				c.log.Warn("Redis does not answer, reading Postgres instead")
			}
		},
	})
}

// guard runs one call within its timeout, or returns [ErrDown] at once while
// the breaker is open. No caller ever waits to find out whether the server is
// back: a ping in the background does.
func (c *Cache) guard(ctx context.Context, call func(context.Context) error) error {
	if c.Down() {
		return ErrDown
	}
	_, err := c.breaker.Execute(func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		err := call(bounded)
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", errCallerGone, err)
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return ErrDown
	}
	return err
}

// probe pings the server when its rest is over, one ping at a time.
func (c *Cache) probe() {
	if c.breaker.State() != gobreaker.StateHalfOpen || !c.probing.CompareAndSwap(false, true) {
		return
	}
	c.probes.Go(func() {
		defer c.probing.Store(false)
		_, _ = c.breaker.Execute(func() (struct{}, error) { // the breaker keeps the outcome
			ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
			defer cancel()
			return struct{}{}, lost(c.client.Ping(ctx).Err())
		})
	})
}

// lost gives err unless it is the server's own answer, which proves that it
// is there.
func lost(err error) error {
	var answer redis.Error
	if errors.As(err, &answer) {
		return nil
	}
	return err
}
