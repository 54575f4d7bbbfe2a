package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

// breakOffWaits cancels every backend that waits for the standby, as an
// impatient client or operator does, until ctx ends.
func breakOffWaits(ctx context.Context, t *testing.T, s *Store) {
	for ctx.Err() == nil {
		if _, err := s.pool.Exec(ctx, `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// I3, I4: while the synchronous standby is away nothing is acknowledged, not
// even what this server has on its disk because somebody broke off the wait:
// neither to the one who sent it, nor to one who asks again. When the standby
// is back, the same requests are acknowledged.
func TestI3NothingIsAcknowledgedBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	primary := testservers.PrivatePostgres(t)
	must(t, Migrate(t.Context(), primary.URL()))
	before := openAt(t, primary.URL())
	must(t, before.EnsureTenant(t.Context(), tenant))
	tool := putTool(t, before, "delete_file", model.EffectUnsafe)
	asked := register(t, before, registration("t", asking(tool, "a"))).Turn.Calls[0]
	permitted := register(t, before, registration("u", allowed(tool, "b"))).Turn.Calls[0]
	standby := testservers.Standby(t, primary, true)
	s, operator := openAt(t, primary.URL()), openAt(t, primary.URL())
	must(t, operator.Ping(t.Context()))
	must(t, standby.Pause())

	ctx, cancel := context.WithCancel(t.Context())
	impatient := make(chan struct{})
	go func() { defer close(impatient); breakOffWaits(ctx, t, operator) }()
	decision := verdict(asked, true, "p")
	claim := model.Claim{Token: model.NewToken(), Worker: "w", Lease: time.Minute, Digest: permitted.Digest}
	requests := map[string]func() error{
		"a decision": func() error { _, err := s.Decide(t.Context(), tenant, decision); return err },
		"a claim":    func() error { _, err := s.Claim(t.Context(), tenant, permitted.ID, claim); return err },
		"a registration": func() error {
			_, err := s.Register(t.Context(), registration("v", asking(tool, "c")))
			return err
		},
	}
	for what, request := range requests {
		if err := request(); !errors.Is(err, model.ErrUnavailable) {
			t.Errorf("%s was acknowledged, and the standby has not got it: %v", what, err)
		}
	}
	if n := scalar[int](t, operator, `select count(*) from decisions`); n != 1 {
		t.Errorf("%d decisions are on the primary's disk: nobody broke off a wait", n)
	}
	cancel()
	<-impatient
	must(t, standby.Resume())
	for what, request := range requests {
		if err := request(); err != nil {
			t.Errorf("%s, asked for again when the standby is back: %v", what, err)
		}
	}
	requirePromotedHas(t, primary, standby, decision.ID)
}

// requirePromotedHas shows that the standby has what was acknowledged.
func requirePromotedHas(t *testing.T, primary, standby *localservers.Postgres, decision string) {
	t.Helper()
	must(t, primary.Kill())
	must(t, standby.Promote(t.Context()))
	s := openAt(t, standby.URL())
	if n := scalar[int](t, s, `select count(*) from decisions where decision_id = $1`, decision); n != 1 {
		t.Errorf("the standby has the decision %d times", n)
	}
	requireConsistent(t, s)
}
