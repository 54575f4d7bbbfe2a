package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// owned are the runs that this worker has claimed, by claim token.
type owned struct {
	mu   sync.Mutex
	runs map[string]*ownedRun
}

// ownedRun is one claim. until is by this node's monotonic clock, counted
// from before the claim was sent, so that it never ends after the lease in
// the row does.
type ownedRun struct {
	tenant model.TenantID
	call   model.CallID
	fence  int64
	token  string
	once   bool // of an unsafe tool: no other attempt ever follows

	mu     sync.Mutex
	until  time.Time
	cancel context.CancelFunc
}

func (o *owned) add(r *ownedRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.runs[r.token] = r
}

func (o *owned) remove(r *ownedRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.runs, r.token)
}

func (o *owned) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.runs)
}

func (o *owned) byTenant() map[model.TenantID][]*ownedRun {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[model.TenantID][]*ownedRun{}
	for _, r := range o.runs {
		out[r.tenant] = append(out[r.tenant], r)
	}
	return out
}

// left is how much of the lease is left.
func (r *ownedRun) left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until)
}

func (r *ownedRun) extend(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = until
}

// cancelWith sets what breaks the run off.
func (r *ownedRun) cancelWith(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
}

// lost follows the loss of the lease. Where another attempt may take its place
// the run is broken off. That of an unsafe tool goes on within the tool's
// time: nobody runs it again, and its late result, which the row accepts, is
// the best that can be learned about it (I4).
func (r *ownedRun) lost() {
	if r.once {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancel != nil {
		r.cancel()
	}
}

// renew moves the leases of running calls on, four times a lease, and breaks
// off those that were taken away or whose lease is about to run out, except
// for what never has another attempt.
func (w *Worker) renew(stop <-chan struct{}) {
	tick := time.NewTicker(w.o.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		for tenant, runs := range w.owned.byTenant() {
			w.renewTenant(tenant, runs)
		}
	}
}

func (w *Worker) renewTenant(tenant model.TenantID, runs []*ownedRun) {
	ctx, cancel := context.WithTimeout(context.Background(), w.o.Lease/4)
	defer cancel()
	renewals := make([]store.Renewal, len(runs))
	for i, r := range runs {
		renewals[i] = store.Renewal{Call: r.call, Fence: r.fence, Token: r.token}
	}
	begin := time.Now()
	renewed, err := w.renewLeases(ctx, tenant, renewals)
	if err != nil {
		w.log.Warn("leases could not be renewed", "runs", len(runs), "err", err)
		for _, r := range runs {
			if r.left() < w.o.Lease/4 {
				r.lost()
			}
		}
		return
	}
	kept := map[model.CallID]bool{}
	for _, r := range renewed {
		kept[r.Call] = true
	}
	for _, r := range runs {
		if kept[r.call] {
			r.extend(begin.Add(w.o.Lease))
		} else {
			r.lost()
		}
	}
}

func (w *Worker) renewLeases(ctx context.Context, tenant model.TenantID, renewals []store.Renewal) ([]store.Renewed, error) {
	if err := failpoint.Hit(ctx, failpoint.RenewBefore); err != nil {
		return nil, err
	}
	renewed, err := w.store.RenewLeases(ctx, tenant, renewals, w.o.Lease.Milliseconds())
	if lost := failpoint.Hit(ctx, failpoint.RenewAfter); lost != nil {
		return nil, lost
	}
	return renewed, err
}
