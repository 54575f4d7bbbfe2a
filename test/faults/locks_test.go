package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// Transactions of the services are victims of deadlocks with another session,
// cannot be serialized, and wait for locks longer than they may. They are done
// again as a whole, a bounded number of times.
func TestFault48DeadlocksSerializationFailuresAndLockTimeouts(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	// Stricter than the services need: what they do at once now fails.
	_, err := d.Rows().ExecContext(t.Context(), `
		do $$ begin execute format('alter database %I set default_transaction_isolation = ''serializable''', current_database());
		            execute format('alter database %I set deadlock_timeout = ''50ms''', current_database()); end $$`)
	must(t, err)
	start(d)
	w := newTraffic(t, d).start(4)
	w.goesOn(5)
	before := failures(t, d)
	decideAtOnce(t, d, 8)
	deadlocks(t, d, 10)
	lockTimeout(t, d, w)
	w.goesOn(10)
	w.keepsItsPromises()
	if now := failures(t, d); now.deadlocks == before.deadlocks {
		t.Error("no transaction was the victim of a deadlock")
	} else {
		t.Logf("%d deadlocks, %d transactions rolled back", now.deadlocks-before.deadlocks, now.rollbacks-before.rollbacks)
	}
}

// failureCounts is what Postgres counts of a database.
type failureCounts struct{ deadlocks, rollbacks int64 }

func failures(t *testing.T, d *testcluster.Deployment) (c failureCounts) {
	t.Helper()
	must(t, d.Rows().QueryRowContext(t.Context(), `
		select deadlocks, xact_rollback from pg_stat_database where datname = current_database()`).Scan(&c.deadlocks, &c.rollbacks))
	return c
}

// decideAtOnce has four people answer the four cards of a turn at the same
// moment, on two nodes, several times (I2).
func decideAtOnce(t *testing.T, d *testcluster.Deployment, rounds int) {
	t.Helper()
	for n := range rounds {
		var parts []client.Part
		for i := range 4 {
			parts = append(parts, client.ToolPart("write", fmt.Sprintf("c%d", i), json.RawMessage(`{}`)))
		}
		registered, err := d.Node(0).RegisterTurn(t.Context(), fmt.Sprintf("at-once-%d", n), client.TurnRequest{MessageID: "m", Parts: parts})
		must(t, err)
		var people sync.WaitGroup
		for i, call := range registered.Turn.Calls {
			people.Go(func() {
				if _, err := d.Node(i%2).Decide(t.Context(), call.ApprovalID, client.Decision{Approved: false}); err != nil {
					t.Errorf("one of four at once: %v", err)
				}
			})
		}
		people.Wait()
		if n, err := testcluster.One[int](t.Context(), d, `select count(*) from continuations where turn_id = $1`, registered.Turn.ID); err != nil || n != 1 {
			t.Errorf("%d continuations (I2): %v", n, err)
		}
	}
}

// deadlocks locks rows in the order that nobody of ours does, call before
// turn, while the turn is being decided. Whoever is the victim, the decision
// is taken.
func deadlocks(t *testing.T, d *testcluster.Deployment, rounds int) {
	t.Helper()
	for n := range rounds {
		registered, err := d.Node(0).RegisterTurn(t.Context(), fmt.Sprintf("deadlock-%d", n), client.TurnRequest{MessageID: "m",
			Parts: []client.Part{client.ToolPart("write", "c", json.RawMessage(`{}`))}})
		must(t, err)
		call := registered.Turn.Calls[0]
		tx, err := d.Rows().BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), `select from calls where call_id = $1 for update`, call.ID)
		must(t, err)
		var person sync.WaitGroup
		person.Go(func() {
			if _, err := d.Node(1).Decide(t.Context(), call.ApprovalID, client.Decision{Approved: false}); err != nil {
				t.Errorf("a decision in a deadlock: %v", err)
			}
		})
		testcluster.Eventually(t, "the decision waits for the call", func(ctx context.Context) error {
			waiting, err := testcluster.One[int](ctx, d, `
				select count(*) from pg_locks where not granted and pid in (
				  select pid from pg_stat_activity where datname = current_database())`)
			if err == nil && waiting == 0 {
				err = fmt.Errorf("nobody waits")
			}
			return err
		})
		_, _ = tx.ExecContext(t.Context(), `select from turns where turn_id = $1 for update`, registered.Turn.ID) // one of the two fails
		_ = tx.Rollback()
		person.Wait()
	}
}

// lockTimeout holds a lock for longer than transactions wait for one.
func lockTimeout(t *testing.T, d *testcluster.Deployment, w *traffic) {
	t.Helper()
	held := holdCalls(t, d.Rows())
	w.isRefused(1)
	must(t, held.Rollback())
}
