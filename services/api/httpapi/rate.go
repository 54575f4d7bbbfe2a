package httpapi

import (
	"sync"

	"golang.org/x/time/rate"
)

// rates holds a token bucket per key. A second's worth may come at once.
type rates struct {
	each float64 // requests per second; 0 is no bound

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newRates(each float64) *rates { return &rates{each: each, buckets: map[string]*rate.Limiter{}} }

func (r *rates) allow(key string) bool {
	if r.each <= 0 {
		return true
	}
	r.mu.Lock()
	b := r.buckets[key]
	if b == nil {
		if len(r.buckets) >= keptKeys {
			clear(r.buckets) // whoever is new begins with a full bucket, which harms nobody
		}
		b = rate.NewLimiter(rate.Limit(r.each), max(int(r.each), 1))
		r.buckets[key] = b
	}
	r.mu.Unlock()
	return b.Allow()
}
