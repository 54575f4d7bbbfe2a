package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/pkg/store"
)

// Options say what to measure.
type Options struct {
	InFlight []int         // round trips at once, one measurement each
	For      time.Duration // each measurement's length
	Limit    bool          // measure the limit too
	Progress io.Writer     // lines about what is being measured
	Log      *slog.Logger
	// DatabaseURL and NATSURL name servers to use; empty ones are started in
	// a folder of their own and removed afterwards.
	DatabaseURL, NATSURL string
}

// Report is what one run measured.
type Report struct {
	Levels []Level `json:"levels"`
	Limits []Limit `json:"limits"`
}

// Level is one measurement.
type Level struct {
	InFlight           int      `json:"inFlight"`
	Completed          int      `json:"completed"`
	PerSecond          float64  `json:"perSecond"`
	WritesPerTrip      float64  `json:"writeTransactionsPerRoundTrip"`
	OfLimit            float64  `json:"ofLimit"`      // PerSecond over the limit below
	LimitClients       int      `json:"limitClients"` // the c of that limit: InFlight, 64 at most
	Register           Quantile `json:"register"`
	Decide             Quantile `json:"decide"`
	DecisionToStart    Quantile `json:"decisionToToolStart"`
	ToolToContinuation Quantile `json:"toolToContinuation"`
}

// Limit is pgbench's rate, per second, of the two row writes.
type Limit struct {
	Clients   int     `json:"clients"`
	RMW       float64 `json:"rmw"`
	Insert    float64 `json:"insert"`
	PerSecond float64 `json:"perSecond"`
}

// Quantile are two quantiles, in milliseconds.
type Quantile struct {
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
}

// limitClients bounds the clients of a limit: beyond, pgbench measures its
// own waiting.
const limitClients = 64

// Run measures. It takes a few seconds more than the levels and their limits.
func Run(ctx context.Context, o Options) (Report, error) {
	postgres, nats, stop, err := servers(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer stop()
	if err := store.Migrate(ctx, postgres); err != nil {
		return Report{}, err
	}
	var report Report
	for _, c := range o.InFlight {
		limit, err := report.limit(ctx, o, postgres, min(c, limitClients))
		if err != nil {
			return report, err
		}
		fmt.Fprintf(o.Progress, "round trips, %d in flight …\n", c)
		level, err := measure(ctx, o, postgres, nats, c)
		if err != nil {
			return report, err
		}
		if o.Limit {
			level.LimitClients, level.OfLimit = limit.Clients, level.PerSecond/limit.PerSecond
		}
		report.Levels = append(report.Levels, level)
	}
	return report, nil
}

// limit measures the limit at so many clients, unless it is known already or
// not wanted.
func (r *Report) limit(ctx context.Context, o Options, postgres string, clients int) (Limit, error) {
	if i := slices.IndexFunc(r.Limits, func(l Limit) bool { return l.Clients == clients }); i >= 0 {
		return r.Limits[i], nil
	}
	if !o.Limit {
		return Limit{}, nil
	}
	fmt.Fprintf(o.Progress, "the limit at %d clients, with pgbench …\n", clients)
	limit, err := measureLimit(ctx, postgres, clients, o.For)
	if err == nil {
		r.Limits = append(r.Limits, limit)
	}
	return limit, err
}

// servers starts what is not named, on disk as in production: with fsync.
func servers(ctx context.Context, o Options) (postgres, nats string, stop func(), err error) {
	postgres, nats = o.DatabaseURL, o.NATSURL
	dir, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return "", "", nil, err
	}
	// Postgres may run as another user, who must be able to get in.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", "", nil, err
	}
	stops := []func(){func() { _ = os.RemoveAll(dir) }}
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	if postgres == "" {
		p, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{Dir: dir + "/postgres"})
		if err != nil {
			stop()
			return "", "", nil, err
		}
		stops = append(stops, func() { _ = p.Close() })
		postgres = p.URL()
	}
	if nats == "" {
		n, err := localservers.StartNATS(ctx, localservers.NATSOptions{Dir: dir + "/nats"})
		if err != nil {
			stop()
			return "", "", nil, err
		}
		stops = append(stops, func() { _ = n.Close() })
		nats = n.URL()
	}
	return postgres, nats, stop, nil
}
