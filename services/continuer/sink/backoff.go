package sink

import (
	"math/rand/v2"
	"time"
)

const (
	firstWait = time.Second
	maxWait   = time.Hour
	// jitter spreads receivers that failed together over 80 to 120 percent.
	jitter = 0.2
)

// Backoff is how long to wait after the failed try number attempt, counted
// from 0: a second, doubled each time up to an hour, and up to a fifth more
// or less. About 35 tries fit into a day.
func Backoff(attempt int) time.Duration {
	wait := maxWait
	if attempt = max(attempt, 0); attempt < 12 { // 2^12 s is above an hour
		wait = min(firstWait<<attempt, maxWait)
	}
	return time.Duration(float64(wait) * (1 - jitter + 2*jitter*rand.Float64()))
}
