package services

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/store"
)

// I10: what the services do is linked within a second, while two continuers
// do it; the rows break no invariant, and once somebody tampers with one, the
// gauge and the log say so.
func TestI10TheAuditIsLinkedAndWatched(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartWorker(0)
	for i := range 2 {
		d.StartContinuer(i, "COUNTERSIGN_AUDIT_INTERVAL=300ms")
	}
	d.Ready()
	d.allowed("sweep_floor", "unsafe", says(http.StatusOK, `1`))
	for i := range 5 {
		d.runIs(d.start(fmt.Sprintf("t%d", i), "sweep_floor")[0].ID, "succeeded")
	}
	testcluster.Eventually(t, "every line of the audit is linked", func(ctx context.Context) error {
		n, err := testcluster.One[int](ctx, d.Deployment, `select (select count(*) from audit) - (select count(*) from audit_chain)`)
		if err == nil && n != 0 {
			err = fmt.Errorf("%d lines are not", n)
		}
		return err
	})
	d.holds()

	d.Change(`with off as materialized (select set_config('session_replication_role', 'replica', true))
	          update audit_chain set hash = 'other' from off where seq = (select max(seq) from audit_chain)`)
	for i := range 2 {
		testcluster.Eventually(t, "the gauge says that a link is wrong", func(context.Context) error {
			page := metrics(t, d.Continuers[i])
			if !strings.Contains(page, `check="link-fits-row"`) || strings.Contains(line(page, `check="link-fits-row"`), " 0\n") {
				return fmt.Errorf("it says: %s", line(page, "link-fits-row"))
			}
			if !strings.HasSuffix(line(page, `check="one-continuation"`), " 0\n") {
				return fmt.Errorf("it says: %s", line(page, "one-continuation"))
			}
			return nil
		})
		if !d.Continuers[i].Log.Contains("an invariant is violated") {
			t.Errorf("continuer %d logs nothing", i)
		}
	}
}

// holds asks all invariants, and what holds at rest once it does.
func (d *deployment) holds() {
	d.T.Helper()
	testcluster.Eventually(d.T, "no invariant is violated at rest", func(ctx context.Context) error {
		found, err := d.Store.Verify(ctx, store.Scope{AtRest: true})
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%d violations, the first: %s", len(found), found[0])
		}
		return err
	})
}

// line is the first line of a page that holds a text.
func line(page, text string) string {
	for l := range strings.Lines(page) {
		if strings.Contains(l, text) {
			return l
		}
	}
	return ""
}
