package httpapi

import (
	"sync"

	"golang.org/x/time/rate"

	"github.com/countersign/countersign/pkg/model"
)

// rates holds a bucket per key or person. A second's worth may come at once.
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

// mayAskNow counts a request of a key, or of a person, however many tokens
// that person has.
func (a *API) mayAskNow(p model.Principal) bool {
	if p.Token {
		return a.people.allow(string(p.Tenant) + "\x00" + p.Subject)
	}
	return a.rates.allow(string(p.Tenant) + "\x00" + p.Key)
}
