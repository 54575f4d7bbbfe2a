package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/store"
)

// While versions are mixed, a node meets states that a newer one wrote. What
// it does not know it neither runs nor decides, and the rest goes on.
func TestFault69AStateOfANewerVersionIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := testcluster.Servers(t)
	start(d)
	w := newTraffic(t, d)
	newer(t, d)
	asked := registerOne(t, d, "asked")
	queued := registerOne(t, d, "queued")
	d.Workers[0].Kill()
	d.Workers[1].Kill()
	_, err := d.Node(0).Decide(t.Context(), queued.ApprovalID, client.Decision{Approved: true})
	must(t, err)
	d.Change(`update approvals set state = 'escalated' where approval_id = $1`, asked.ApprovalID)
	d.Change(`update calls set run = 'throttled' where call_id = $1`, queued.ID)
	d.Workers[0].Start()
	d.Workers[1].Start()
	d.Ready()

	if answer, err := d.Node(1).Decide(t.Context(), asked.ApprovalID, client.Decision{Approved: true}); err == nil {
		t.Errorf("a card in a state that is not known was decided: %s", answer.Result)
	}
	w.start(2).goesOn(10) // the same workers run others meanwhile, and sweeps go by
	w.stop()
	for query, id := range map[string]string{
		`select count(*) from approvals where approval_id = $1 and state = 'escalated'`: asked.ApprovalID,
		`select count(*) from calls where call_id = $1 and run = 'throttled'`:           queued.ID,
	} {
		if n, err := testcluster.One[int](t.Context(), d, query, id); err != nil || n != 1 {
			t.Errorf("the newer version's row was changed: %v", err)
		}
	}
	if n := w.tool.times(queued.ID) + w.tool.times(asked.ID); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	w.keepsItsPromises()
}

// A newer version's migration adds to every table while this version's nodes
// work on, and then each of them is replaced in turn: nobody notices.
func TestFault69EveryTableGrowsUnderLoad(t *testing.T) {
	t.Parallel()
	d, w := behindABalancer(t)
	w.start(3).goesOn(6)
	for range 2 { // once for plans that were made before, once for those of the first time
		expand(t, d)
		w.goesOn(6)
	}
	for _, service := range each(d) {
		must(t, service.Stop(syscall.SIGTERM))
		service.Start()
		service.Ready()
	}
	w.goesOn(6)
	if unknown := w.keepsItsPromises(); unknown > 0 || w.cut > 0 || w.refused > 0 {
		t.Errorf("%d outcomes are unknown, %d requests were cut and %d refused", unknown, w.cut, w.refused)
	}
}

// expand adds a column to every table, and an index to a hot one.
func expand(t *testing.T, d *testcluster.Deployment) {
	t.Helper()
	rows, err := d.Rows().QueryContext(t.Context(), `select table_name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`)
	must(t, err)
	var tables []string
	for rows.Next() {
		var name string
		must(t, rows.Scan(&name))
		tables = append(tables, name)
	}
	must(t, rows.Err())
	column := fmt.Sprintf("newer_%d", time.Now().UnixNano())
	for _, table := range tables {
		_, err := d.Rows().ExecContext(t.Context(), fmt.Sprintf(`alter table %s add column %s text not null default 'x'`, table, column))
		must(t, err)
	}
	_, err = d.Rows().ExecContext(t.Context(), fmt.Sprintf(`create index concurrently on calls (%s)`, column))
	must(t, err)
}

// newer makes the schema take states that this version does not know.
func newer(t *testing.T, d *testcluster.Deployment) {
	t.Helper()
	for _, statement := range []string{
		`alter domain run_state drop constraint run_state_check`,
		`alter domain approval_state drop constraint approval_state_check`,
		`alter table calls disable trigger user`,
		`alter table approvals disable trigger user`,
	} {
		_, err := d.Rows().ExecContext(t.Context(), statement)
		must(t, err)
	}
}

func registerOne(t *testing.T, d *testcluster.Deployment, topic string) client.Call {
	t.Helper()
	registered, err := d.Node(0).RegisterTurn(t.Context(), topic, client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("write", "c", json.RawMessage(`{}`))}})
	must(t, err)
	return client.Call{ID: registered.Turn.Calls[0].ID, ApprovalID: registered.Turn.Calls[0].ApprovalID}
}

// A migration whose session is killed half-way has changed nothing, and is
// done by whoever comes next.
func TestFault69AMigrationIsKilledHalfWay(t *testing.T) {
	t.Parallel()
	postgres := testservers.PrivatePostgres(t)
	killed := 0
	for delay := time.Duration(0); ; delay = delay*3/2 + 5*time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
		half, end := context.WithTimeout(ctx, delay)
		err := store.Migrate(half, postgres.URL())
		end()
		cancel()
		if err == nil {
			break
		}
		killed++
	}
	if killed < 3 {
		t.Errorf("only %d were killed", killed)
	}
	must(t, store.Migrate(t.Context(), postgres.URL()))
	d := testcluster.On(t, postgres.URL())
	start(d)
	w := newTraffic(t, d).start(2)
	w.goesOn(5)
	w.keepsItsPromises()
	t.Logf("%d migrations were killed", killed)
}
