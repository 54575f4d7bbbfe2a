package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// checkTimeout is how long one check may take: an answer that comes later
	// is of no use to a load balancer.
	checkTimeout = 2 * time.Second
	// checkAge is how long an answer is repeated without checking again, so
	// that asking cannot load what is checked.
	checkAge = time.Second
)

// Health answers whether a service lives and whether it should get work.
//
//	GET /healthz  200 while the process answers at all
//	GET /readyz   200 when every required check passes, else 503; 503 while draining
//	GET /metrics  the metrics, for Prometheus
//
// A service requires what it cannot work without, which is Postgres. NATS and
// Redis are watched: without them it is slower, not wrong, and must not be
// taken out of service.
type Health struct {
	log      *slog.Logger
	draining atomic.Bool
	checks   []*probe

	mu      sync.Mutex
	checked time.Time
	report  report
}

type probe struct {
	name     string
	required bool
	run      func(ctx context.Context) error
}

type report struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
}

// NewHealth returns a Health without checks; failures are logged to log. Add
// the checks before serving.
func NewHealth(log *slog.Logger) *Health { return &Health{log: log} }

// Require adds a check without which the service is not ready.
func (h *Health) Require(name string, run func(ctx context.Context) error) {
	h.checks = append(h.checks, &probe{name: name, required: true, run: run})
}

// Watch adds a check that is shown and never makes the service unready.
func (h *Health) Watch(name string, run func(ctx context.Context) error) {
	h.checks = append(h.checks, &probe{name: name, run: run})
}

// Drain makes the service unready for good: it is stopping.
func (h *Health) Drain() { h.draining.Store(true) }

// Handler serves the three routes and nothing else; metrics may be nil.
func (h *Health) Handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	h.Routes(mux, metrics)
	return mux
}

// Routes adds the three routes to a service's own; metrics may be nil.
func (h *Health) Routes(mux *http.ServeMux, metrics http.Handler) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeReport(w, http.StatusOK, report{Status: "alive"})
	})
	mux.HandleFunc("GET /readyz", h.readyz)
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
}

func (h *Health) readyz(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		writeReport(w, http.StatusServiceUnavailable, report{Status: "draining"})
		return
	}
	answer := h.check(r.Context())
	status := http.StatusOK
	if answer.Status != "ready" {
		status = http.StatusServiceUnavailable
	}
	writeReport(w, status, answer)
}

// check runs all checks at once, or repeats an answer that is young enough.
// What failed is logged: the route is open to all, and errors name hosts.
func (h *Health) check(ctx context.Context) report {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.checked) < checkAge {
		return h.report
	}
	// The answer is for everybody who asks, not only for who asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	failures := make([]error, len(h.checks))
	var running sync.WaitGroup
	for i, probe := range h.checks {
		running.Go(func() { failures[i] = probe.run(ctx) })
	}
	running.Wait()
	h.report, h.checked = h.judge(failures), time.Now()
	return h.report
}

func (h *Health) judge(failures []error) report {
	answer := report{Status: "ready", Checks: map[string]string{}}
	for i, probe := range h.checks {
		answer.Checks[probe.name] = "ok"
		if failures[i] == nil {
			continue
		}
		answer.Checks[probe.name] = "failed"
		if probe.required {
			answer.Status = "not-ready"
		}
		h.log.Warn("check failed", "check", probe.name, "required", probe.required, KeyError, failures[i])
	}
	return answer
}

func writeReport(w http.ResponseWriter, status int, answer report) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the asker is gone
}
