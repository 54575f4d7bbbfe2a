package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/store"
)

// pair is a deployment on a primary and its standby; the services' URL names
// both.
type pair struct {
	*testcluster.Deployment
	primary, standby *localservers.Postgres
}

func onPair(t *testing.T, sync bool) *pair {
	t.Helper()
	primary := testservers.PrivatePostgres(t)
	must(t, store.Migrate(t.Context(), primary.URL()))
	standby := testservers.Standby(t, primary, sync)
	d := testcluster.On(t, localservers.EitherURL(primary, standby))
	d.StartContinuer(0)
	for i := range 2 {
		d.StartAPI(i)
		d.StartWorker(i, "COUNTERSIGN_WORKER_LEASE=10s") // longer than commits are kept waiting
	}
	d.Ready()
	return &pair{d, primary, standby}
}

// The primary is paused, its synchronous standby takes over, and the old one
// wakes up: everything that was acknowledged is there, and nothing goes to
// the old one any more, which cannot acknowledge anything either.
func TestFault45FailoverToTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	d := onPair(t, true)
	w := newTraffic(t, d.Deployment).start(4)
	w.goesOn(5)
	must(t, d.primary.Pause())
	must(t, d.standby.Promote(t.Context()))
	w.goesOn(10)
	must(t, d.primary.Resume())
	w.goesOn(20)
	for _, s := range []*testcluster.Service{d.API[0], d.API[1], d.Workers[0], d.Continuers[0]} {
		reaches(t, s, 1, "countersign_store_failovers_total")
	}
	cannotAcknowledge(t, d.primary)
	must(t, d.primary.Kill())
	w.keepsItsPromises()
	for _, s := range d.API {
		if lost, err := metric(t.Context(), s, "countersign_store_lost_total"); err != nil || lost > 0 {
			t.Errorf("%v topics are said to be lost: %v", lost, err)
		}
	}
}

// cannotAcknowledge: its commits wait for a standby that has left it.
func cannotAcknowledge(t *testing.T, old *localservers.Postgres) {
	t.Helper()
	db, err := sql.Open("pgx", old.URL())
	must(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, `insert into tenants (tenant_id) values ('late')`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the old primary answers a commit with %v", err)
	}
}

// The standby that commits wait for is away: they wait, then 503, and nothing
// is acknowledged that it has not got, whoever gives up waiting.
func TestFault47TheSynchronousStandbyIsAway(t *testing.T) {
	t.Parallel()
	d := onPair(t, true)
	w := newTraffic(t, d.Deployment).start(4)
	w.goesOn(5)
	must(t, d.standby.Pause())
	w.isRefused(2)
	before := w.count()
	w.isRefused(4)
	if now := w.count(); now != before {
		t.Errorf("%d decisions were acknowledged without the standby", now-before)
	}
	must(t, d.standby.Resume())
	w.goesOn(10)
	w.stop()
	must(t, d.primary.Kill())
	must(t, d.standby.Promote(t.Context()))
	w.keepsItsPromises() // of what the standby has
}

// A standby that commits do not wait for takes over without the last of them.
// That loss is what asynchronous replication is; it is found out, said, and
// nowhere shown as if it were there.
func TestFault46FailoverToAnAsynchronousStandby(t *testing.T) {
	t.Parallel()
	d := onPair(t, false)
	w := newTraffic(t, d.Deployment)
	must(t, second(d.Node(0).RegisterTurn(t.Context(), "t", client.TurnRequest{MessageID: "m",
		Parts: []client.Part{client.ToolPart("write", "c", []byte(`{}`))}})))
	card := onlyCard(t, d.Node(0))
	d.hasReplayed("t", 1)
	d.leave()
	versions := follow(t, d.Node(1), "t")
	decided, err := d.Node(0).Decide(t.Context(), card, client.Decision{Approved: false})
	must(t, err)
	seen(t, versions, decided.Topic.Version)
	projected(t, d.Node(1), "t", "pending")

	must(t, d.primary.Kill())
	must(t, d.standby.Promote(t.Context()))
	seen(t, versions, 1) // the open stream goes back, too
	projected(t, d.Node(1), "t", "awaiting-approval")
	reaches(t, d.API[0], 1, "countersign_store_lost_total")
	if !d.API[0].Log.Contains("commits that were acknowledged are lost") {
		t.Error("the log does not say what is lost")
	}
	again, err := d.Node(1).Decide(t.Context(), card, client.Decision{Approved: true})
	must(t, err)
	seen(t, versions, again.Topic.Version)
	w.settles()
}

// leave ends the standby's replication: what is committed from now on, it
// does not get.
func (d *pair) leave() {
	d.T.Helper()
	must(d.T, d.standby.Set(d.T.Context(), "primary_conninfo", ""))
	testcluster.Eventually(d.T, "the standby has left", func(ctx context.Context) error {
		return on(ctx, d.primary, `select count(*) = 0 from pg_stat_replication`)
	})
}

// hasReplayed waits until the standby shows a version of a topic.
func (d *pair) hasReplayed(topic string, version int64) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the standby has the topic", func(ctx context.Context) error {
		return on(ctx, d.standby, `select coalesce(max(version), 0) >= $2 from topics where topic_id = $1`, topic, version)
	})
}

// on tells whether a query of one truth is true on a server.
func on(ctx context.Context, server *localservers.Postgres, query string, args ...any) error {
	db, err := sql.Open("pgx", server.URL())
	if err != nil {
		return err
	}
	defer db.Close()
	var holds bool
	if err := db.QueryRowContext(ctx, query, args...).Scan(&holds); err != nil || !holds {
		return fmt.Errorf("not yet: %w", err)
	}
	return nil
}

func onlyCard(t *testing.T, node *client.Client) string {
	t.Helper()
	cards, err := node.Approvals(t.Context(), client.ApprovalFilter{})
	must(t, err)
	if len(cards.Items) != 1 {
		t.Fatalf("cards: %+v", cards.Items)
	}
	return cards.Items[0].ID
}

// follow gives the versions that a window is told of, and opens the window
// again when its node ends it.
func follow(t *testing.T, node *client.Client, topic string) <-chan int64 {
	t.Helper()
	versions := make(chan int64, 64)
	go func() {
		for e, err := range node.Events(t.Context(), topic, 0) {
			if err != nil {
				return
			}
			if e.Status != nil {
				versions <- e.Status.Version
			}
		}
	}()
	return versions
}

func seen(t *testing.T, versions <-chan int64, want int64) {
	t.Helper()
	timeout := time.After(testcluster.Deadline)
	for {
		select {
		case got := <-versions:
			if got == want {
				return
			}
		case <-timeout:
			t.Fatalf("no window was told of version %d", want)
		}
	}
}

// projected waits until a list of topics, which Redis answers, shows a status.
func projected(t *testing.T, node *client.Client, topic, status string) {
	t.Helper()
	testcluster.Eventually(t, topic+" is shown as "+status, func(ctx context.Context) error {
		list, err := node.Topics(ctx, client.TopicFilter{IDs: []string{topic}})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status != status) {
			err = fmt.Errorf("topics: %+v", list.Items)
		}
		return err
	})
}

func second[T any](_ T, err error) error { return err }
