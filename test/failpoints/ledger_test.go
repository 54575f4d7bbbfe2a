package failpoints

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// ledger is a tool with its own account of what it was sent: only it says what
// took effect.
type ledger struct {
	*httptest.Server
	mu   sync.Mutex
	sent map[string][]string // the keys, by call
}

// slow is how long the tool below /slow takes: long enough that the lease of
// its run is renewed, which happens four times a lease.
const slow = lease / 2

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{sent: map[string][]string{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.note(r.Header.Get("Countersign-Call"), r.Header.Get("Idempotency-Key"))
		if r.URL.Path == "/slow" {
			select {
			case <-time.After(slow):
			case <-r.Context().Done():
			}
		}
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, `"done"`)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *ledger) note(call, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[call] = append(l.sent[call], key)
}

// times is how often a call was sent, and under how many keys.
func (l *ledger) times(call string) (sent, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	distinct := map[string]bool{}
	for _, key := range l.sent[call] {
		distinct[key] = true
	}
	return len(l.sent[call]), len(distinct)
}
