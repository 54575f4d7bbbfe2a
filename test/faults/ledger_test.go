package faults

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/countersign/countersign/pkg/client"
)

// ledger is a tool with its own account of what was done: only it says what
// ran.
type ledger struct {
	*httptest.Server
	mu  sync.Mutex
	ran map[string]int // how often, by call
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{ran: map[string]int{}}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.ran[r.Header.Get("Countersign-Call")]++
		l.mu.Unlock()
		fmt.Fprint(w, `"done"`)
	}))
	t.Cleanup(l.Close)
	return l
}

// times is how often a call was done.
func (l *ledger) times(call string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran[call]
}

// tool is the ledger as a tool that must not run twice.
func (l *ledger) tool() client.Tool {
	return client.Tool{Description: "Writes into its ledger.", Effect: "unsafe", Timeout: "5s",
		HTTP: &client.HTTPTool{Method: "POST", URL: l.URL}}
}
