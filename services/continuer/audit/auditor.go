package audit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/countersign/countersign/pkg/store"
)

const (
	// overlap is looked at twice, since a row can become visible a while after
	// the time that it names.
	overlap = time.Minute
	// late is how long what is due may wait before the auditor speaks of it:
	// far longer than any sweep needs.
	late = 10 * time.Minute
	// lookTime bounds one statement, so that a look is never what a database
	// in trouble suffers from.
	lookTime = 5 * time.Second
	// lookLines and lookRows bound the lines of the audit that one look takes
	// in, and what it tells of one invariant.
	lookLines, lookRows = 20_000, 20
	// keep is how long a violation that was seen counts.
	keep = time.Hour
)

// Rows is what is audited; *store.Store is one.
type Rows interface {
	// Audit is [store.Store.Verify] on one node at a time: false where
	// another one is at it.
	Audit(ctx context.Context, scope store.Scope) ([]store.Violation, bool, error)
}

// Auditor asks the invariants over what changed lately, every interval.
type Auditor struct {
	rows     Rows
	interval time.Duration
	log      *slog.Logger
	since    time.Time // until when everything was looked at

	mu    sync.Mutex
	known map[string]violation // by what it says, once it was logged
}

// violation is one that was logged.
type violation struct {
	invariant store.Invariant
	seen      time.Time // last
}

// NewAuditor makes an auditor and its gauge.
func NewAuditor(rows Rows, interval time.Duration, log *slog.Logger, meter metric.Meter) (*Auditor, error) {
	a := &Auditor{rows: rows, interval: interval, log: log, known: map[string]violation{}}
	_, err := meter.Int64ObservableGauge("countersign.invariant.violations",
		metric.WithDescription("Rows that break an invariant, as this node saw them within the last hour"),
		metric.WithInt64Callback(a.observe))
	return a, err
}

// observe tells every invariant, also those that hold: a gauge that is there
// and 0 is not the same as one that is not there.
func (a *Auditor) observe(_ context.Context, o metric.Int64Observer) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]int64{}
	for _, v := range a.known {
		found[v.invariant.Name]++
	}
	for _, i := range store.Invariants() {
		o.Observe(found[i.Name], metric.WithAttributes(attribute.String("invariant", i.Number), attribute.String("check", i.Name)))
	}
	return nil
}

// Run looks until ctx ends: at what changed since the look before, give or
// take a fifth of the interval, so that nodes do not look in step. An
// interval of 0 never looks.
func (a *Auditor) Run(ctx context.Context) error {
	if a.interval <= 0 {
		<-ctx.Done()
		return nil
	}
	a.since = time.Now()
	for {
		jitter := rand.N(a.interval*2/5+1) - a.interval/5
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(a.interval + jitter):
			a.look(ctx)
		}
	}
}

// look is one look. What it could not see, the next one looks at again.
func (a *Auditor) look(ctx context.Context) {
	began := time.Now()
	found, mine, err := a.rows.Audit(ctx, store.Scope{
		Since: a.since.Add(-overlap), AtRest: true, Late: late, Lines: lookLines, Rows: lookRows, Timeout: lookTime,
	})
	switch {
	case err == nil && mine:
		a.since = began
		a.note(ctx, found, began)
	case err != nil && ctx.Err() == nil:
		a.log.WarnContext(ctx, "the invariants could not be asked, the next look covers it", "err", err)
	}
}

// note logs what is new. What was seen in a window is kept for an hour, since
// the next window does not show it any more; what must hold at rest is looked
// for everywhere, and is over when it is not there.
func (a *Auditor) note(ctx context.Context, found []store.Violation, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, v := range a.known {
		if v.invariant.AtRest || now.Sub(v.seen) > keep {
			v.seen = time.Time{}
			a.known[key] = v
		}
	}
	for _, v := range found {
		key := identity(v)
		if _, is := a.known[key]; !is {
			a.log.ErrorContext(ctx, "an invariant is violated", "invariant", v.Invariant.Number, "check", v.Invariant.Name,
				"tenant", v.Tenant, "topic", v.Topic, "turn", v.Turn, "call", v.Call, "detail", v.Detail, "next", v.Invariant.Next)
		}
		a.known[key] = violation{v.Invariant, now}
	}
	for key, v := range a.known {
		if v.seen.IsZero() {
			delete(a.known, key)
		}
	}
}

// identity is what makes two sights of a violation the same: what is overdue
// says something else each time.
func identity(v store.Violation) string {
	if v.Invariant.AtRest {
		v.Detail = ""
	}
	return v.String()
}
