package audit

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/countersign/countersign/pkg/store"
)

// rows answers looks with what a test puts there.
type rows struct {
	found []store.Violation
	mine  bool
	err   error
	since []time.Time
}

func (r *rows) Audit(_ context.Context, scope store.Scope) ([]store.Violation, bool, error) {
	r.since = append(r.since, scope.Since)
	return r.found, r.mine, r.err
}

type audited struct {
	*Auditor
	rows   *rows
	log    *bytes.Buffer
	reader *metric.ManualReader
}

func newAudited(t *testing.T) audited {
	t.Helper()
	a := audited{rows: &rows{mine: true}, log: &bytes.Buffer{}, reader: metric.NewManualReader()}
	var err error
	a.Auditor, err = NewAuditor(a.rows, time.Minute, slog.New(slog.NewTextHandler(a.log, nil)),
		metric.NewMeterProvider(metric.WithReader(a.reader)).Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// gauge reads the gauge by check.
func (a audited) gauge(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := a.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, p := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Gauge[int64]).DataPoints {
		name, _ := p.Attributes.Value("check")
		out[name.AsString()] = p.Value
	}
	return out
}

func of(t *testing.T, name, detail string) store.Violation {
	t.Helper()
	for _, i := range store.Invariants() {
		if i.Name == name {
			return store.Violation{Invariant: i, Tenant: "acme", Turn: "turn", Detail: detail}
		}
	}
	t.Fatalf("no invariant is named %s", name)
	return store.Violation{}
}

// A violation is logged once and counts for an hour, though the next window
// does not show it; what was overdue and is not any more counts no longer.
func TestAViolationIsLoggedOnceAndCounted(t *testing.T) {
	t.Parallel()
	a := newAudited(t)
	if got := a.gauge(t); got["one-continuation"] != 0 || len(got) != len(store.Invariants()) {
		t.Fatalf("before any look: %v", got)
	}
	a.rows.found = []store.Violation{of(t, "one-continuation", "missing"), of(t, "leases-hold", "since 10m")}
	a.look(t.Context())
	a.rows.found = []store.Violation{of(t, "leases-hold", "since 11m")}
	a.look(t.Context())
	if got := a.gauge(t); got["one-continuation"] != 1 || got["leases-hold"] != 1 || got["turn-state"] != 0 {
		t.Errorf("two violations: %v", got)
	}
	if n := strings.Count(a.log.String(), "an invariant is violated"); n != 2 {
		t.Errorf("%d lines were logged, want 2:\n%s", n, a.log)
	}
	a.note(t.Context(), nil, time.Now().Add(keep/2))
	if got := a.gauge(t); got["one-continuation"] != 1 || got["leases-hold"] != 0 {
		t.Errorf("half an hour later: %v", got)
	}
	a.note(t.Context(), nil, time.Now().Add(2*keep))
	if got := a.gauge(t); got["one-continuation"] != 0 {
		t.Errorf("two hours later: %v", got)
	}
}

// What a look could not see, the next one looks at again.
func TestALookThatFailedIsCoveredByTheNext(t *testing.T) {
	t.Parallel()
	a := newAudited(t)
	a.since = time.Now().Add(-time.Hour)
	a.rows.err = context.DeadlineExceeded
	a.look(t.Context())
	a.rows.err, a.rows.mine = nil, false
	a.look(t.Context())
	a.rows.mine = true
	a.look(t.Context())
	a.look(t.Context())
	if s := a.rows.since; !s[0].Equal(s[1]) || !s[1].Equal(s[2]) || !s[3].After(s[2].Add(50*time.Minute)) {
		t.Errorf("the looks began at %v", s)
	}
}
