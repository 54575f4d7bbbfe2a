package users

import (
	"errors"
	"math/rand/v2"

	"github.com/countersign/countersign/pkg/client"
)

// mostSeen bounds what is remembered of each tenant.
const mostSeen = 256

// remember keeps a turn's approvals, for whoever pries.
func (w *World) remember(t tenant, turn *client.Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range turn.Calls {
		if call.ApprovalID != "" {
			w.seen[t.name] = append(w.seen[t.name], call.ApprovalID)
		}
	}
	if over := len(w.seen[t.name]) - mostSeen; over > 0 {
		w.seen[t.name] = w.seen[t.name][over:]
	}
}

// someOf gives an approval that a tenant has, or "".
func (w *World) someOf(t tenant, r *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen := w.seen[t.name]; len(seen) > 0 {
		return seen[r.IntN(len(seen))]
	}
	return ""
}

func problemOf(err error) (*client.Problem, bool) { return errors.AsType[*client.Problem](err) }
