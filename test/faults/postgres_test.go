package faults

import (
	"context"
	"database/sql"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/store"
)

// onPostgres is a deployment on a Postgres of its own, that the test may
// break: two api nodes, two workers and one continuer.
func onPostgres(t *testing.T) (*testcluster.Deployment, *localservers.Postgres) {
	t.Helper()
	postgres := testservers.PrivatePostgres(t)
	must(t, store.Migrate(t.Context(), postgres.URL()))
	d := testcluster.On(t, postgres.URL())
	start(d)
	return d, postgres
}

// start starts what nearly every test here runs.
func start(d *testcluster.Deployment) {
	d.StartAPI(0)
	d.StartAPI(1)
	d.StartWorker(0)
	d.StartWorker(1)
	d.StartContinuer(0)
	d.Ready()
}

// Postgres stops cleanly, at once, and by a kill -9 of its first process,
// while people decide. Until it is back they get 503 and try again.
func TestFault41PostgresRestarts(t *testing.T) {
	t.Parallel()
	d, postgres := onPostgres(t)
	w := newTraffic(t, d).start(4)
	w.goesOn(5)
	for _, end := range []func() error{
		postgres.Close, // "fast": sessions are ended, then a checkpoint
		func() error { return postgres.End(syscall.SIGQUIT) }, // "immediate"
		func() error { return postgres.End(syscall.SIGKILL) },
	} {
		must(t, end())
		w.isRefused(2)
		must(t, postgres.Start(t.Context()))
		w.goesOn(10)
	}
	w.keepsItsPromises()
}

// Ten backends per second are terminated, whichever they serve.
func TestFault43BackendsAreTerminated(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	start(d)
	w := newTraffic(t, d).start(4)
	w.goesOn(5)
	if n := terminateBackends(t, d, 40); n < 20 {
		t.Errorf("only %d backends were terminated", n)
	}
	w.goesOn(10)
	w.keepsItsPromises()
}

// terminateBackends ends a random backend of the services ten times a second,
// and returns how many there were to end.
func terminateBackends(t *testing.T, d *testcluster.Deployment, times int) (ended int) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range times {
		<-tick.C
		ended += terminateOne(t, d.Rows())
	}
	return ended
}

func terminateOne(t *testing.T, db *sql.DB) (ended int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	must(t, db.QueryRowContext(ctx, `
		select count(pg_terminate_backend(pid))
		  from (select pid from pg_stat_activity
		         where datname = current_database() and application_name = 'countersign' and pid <> pg_backend_pid()
		         order by random() limit 1) one`).Scan(&ended))
	return ended
}
