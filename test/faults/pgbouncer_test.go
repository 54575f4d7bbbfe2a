package faults

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
)

// What docs/faults.md tells operators who put PgBouncer in between.
const (
	ignored     = "jit, lock_timeout, statement_timeout, idle_in_transaction_session_timeout, enable_nestloop, enable_seqscan, plan_cache_mode"
	roleSetting = `do $$ begin execute format('alter role %I in database %I set lock_timeout = ''2s''', current_user, current_database()); end $$`
)

// A pooler stands between the services and Postgres, dies under load and comes
// back. In session mode every version does; in transaction mode those that
// know prepared statements.
func TestFault51PgBouncerInBetween(t *testing.T) {
	t.Parallel()
	modes := []string{"session"}
	prepares, err := localservers.PgBouncerPrepares(t.Context())
	must(t, err)
	if prepares {
		modes = append(modes, "transaction")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) { fault51(t, mode) })
	}
}

func fault51(t *testing.T, mode string) {
	d := testcluster.Servers(t)
	_, err := d.Rows().ExecContext(t.Context(), roleSetting)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	pooler, err := localservers.StartPgBouncer(ctx, localservers.PgBouncerOptions{
		Dir: filepath.Join(testservers.Dir(t), "pgbouncer"), Server: d.Database, Mode: mode, Ignores: ignored})
	must(t, err)
	t.Cleanup(func() { must(t, pooler.Kill()) })
	d.Env = append(d.Env, "COUNTERSIGN_DATABASE_URL="+pooler.URL())
	d.StartAPI(0)
	d.StartAPI(1)
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	w := newTraffic(t, d).start(3)
	w.goesOn(20)
	must(t, pooler.Kill())
	w.isRefused(2)
	must(t, pooler.Start(ctx))
	w.goesOn(20)
	w.stop()
	w.keepsItsPromises()
}
