package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxAsked bounds what a Retry-After can make a caller wait.
	maxAsked = 30 * time.Second
)

// unreached is a request without a complete answer: whether the server acted
// on it is not known.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// again tells whether r is sent once more after err, and after which pause.
func (c *Client) again(r request, err error, try int) (time.Duration, bool) {
	if try >= c.tries {
		return 0, false
	}
	answer, answered := errors.AsType[*Problem](err)
	switch {
	case answered && answer.Status == http.StatusTooManyRequests:
		// Nothing was done, so everything may be repeated.
		return max(asked(answer), backoff(try)), true
	case !r.repeat:
		return 0, false
	case cut(err):
		return backoff(try), true
	case !answered:
		return 0, false
	case answer.Status == http.StatusServiceUnavailable,
		answer.Status == http.StatusBadGateway, answer.Status == http.StatusGatewayTimeout:
		return max(asked(answer), backoff(try)), true
	}
	return 0, false
}

func cut(err error) bool {
	_, ok := errors.AsType[*unreached](err)
	return ok
}

func asked(answer *Problem) time.Duration { return min(answer.RetryAfter, maxAsked) }

// backoff is the pause after the given try, counted from 1: doubled each
// time, and a random part of it, so that clients do not come back together.
func backoff(try int) time.Duration {
	full := maxPause
	if try < 7 {
		full = min(firstPause<<(try-1), maxPause)
	}
	return full/2 + rand.N(full/2)
}

// pause waits, and tells whether it may go on.
func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
