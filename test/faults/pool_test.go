package faults

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/store"
)

// onSmallPostgres is a Postgres with few connections, and a deployment on it whose api
// node has pools of two.
func onSmallPostgres(t *testing.T, connections string) *testcluster.Deployment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{
		Dir: filepath.Join(testservers.Dir(t), "small"), Settings: map[string]string{"max_connections": connections, "fsync": "off"}})
	must(t, err)
	t.Cleanup(func() { _ = postgres.Close() })
	must(t, store.Migrate(t.Context(), postgres.URL()))
	d := testcluster.On(t, postgres.URL())
	d.StartAPI(0, "COUNTERSIGN_API_MAX_CONNS=2")
	d.StartWorker(0)
	d.StartContinuer(0)
	d.Ready()
	return d
}

// The pools of a node are exhausted, by a lock that nobody gives back and by
// many who read; then the server has no connection left. Whoever asks gets
// 503 and when to come again, soon, and decisions are not kept waiting by
// reads.
func TestFault50ConnectionsRunOut(t *testing.T) {
	t.Parallel()
	d := onSmallPostgres(t, "40")
	w := newTraffic(t, d).start(3)
	w.goesOn(5)

	readStorm(t, d, func() { w.goesOn(10) })

	held := holdCalls(t, d.Rows())
	w.isRefused(2)
	must(t, held.Rollback())
	w.goesOn(10)

	// The node comes back with empty pools to a server that is full.
	w.stop()
	d.API[0].Kill()
	full := fill(t, d.Database)
	d.API[0].Start()
	w.start(3)
	w.isRefused(3)
	for _, db := range full {
		must(t, db.Close())
	}
	d.API[0].Ready()
	w.goesOn(10)
	w.keepsItsPromises()
	if w.slowest > patience-testcluster.Deadline/10 {
		t.Errorf("somebody waited %s for an answer", w.slowest)
	}
}

// readStorm lets sixty clients read as fast as they can, meanwhile.
func readStorm(t *testing.T, d *testcluster.Deployment, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	node := client.New(d.API[0].URL, d.Key, client.WithTries(1))
	var readers sync.WaitGroup
	for range 60 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_, err := node.Approvals(ctx, client.ApprovalFilter{State: "denied"})
				if p, is := errors.AsType[*client.Problem](err); is && p.Status != http.StatusServiceUnavailable {
					t.Errorf("a read: %v", err)
				}
			}
		})
	}
	meanwhile()
	cancel()
	readers.Wait()
}

// holdCalls locks a table that nothing is done without.
func holdCalls(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.ExecContext(t.Context(), `lock table calls in access exclusive mode`)
	must(t, err)
	return tx
}

// fill takes connections until the server has no more, for superusers either.
func fill(t *testing.T, url string) (taken []*sql.DB) {
	t.Helper()
	for end := time.Now().Add(testcluster.Deadline); time.Now().Before(end); {
		db, err := sql.Open("pgx", url)
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		err = db.PingContext(t.Context())
		if pg, is := errors.AsType[*pgconn.PgError](err); is && pg.Code == "53300" {
			return taken
		}
		must(t, err)
		taken = append(taken, db)
	}
	t.Fatalf("the server still takes connections after %d", len(taken))
	return nil
}
