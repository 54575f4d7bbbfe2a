package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// A checker that cannot fail proves nothing: every invariant is broken here
// by whoever may do anything, the owner with the triggers off, and exactly
// what was broken is seen, among all rows and in a window.
func TestVerifySeesEachViolation(t *testing.T) {
	t.Parallel()
	s := open(t)
	everything(t, s)
	breakers := map[string]breaker{
		"all rows": newBreaker(t, s, Scope{AtRest: true, Late: time.Hour}),
		"a window": newBreaker(t, s, Scope{AtRest: true, Late: time.Hour, Since: time.Now().Add(-time.Hour)}),
	}
	for name, b := range breakers {
		if found := b.violates(t, ""); len(found) > 0 {
			t.Fatalf("%s: violated though nothing was broken: %v", name, found)
		}
	}
	seen := map[string]bool{}
	for _, c := range corruptions {
		for name, b := range breakers {
			if diff := cmp.Diff(c.violates, b.violates(t, c.statement)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", name, c.statement, diff)
			}
		}
		for _, name := range c.violates {
			seen[name] = true
		}
	}
	for _, i := range Invariants() {
		if !seen[i.Name] {
			t.Errorf("%s %s: nothing here breaks it", i.Number, i.Name)
		}
	}
}

// breaker breaks rows, verifies, and takes it back.
type breaker struct {
	conn  *pgx.Conn
	scope Scope
}

func newBreaker(t *testing.T, s *Store, scope Scope) breaker {
	t.Helper()
	scope.defaults()
	conn, err := s.verifying(t.Context(), scope)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := conn.PgConn().Exec(t.Context(), `set session_replication_role = replica; set plan_cache_mode = force_generic_plan`)
	_, err = exec.ReadAll()
	must(t, err)
	return breaker{conn, scope}
}

// violates gives the names of what is violated after a statement.
func (b breaker) violates(t *testing.T, statement string) []string {
	t.Helper()
	tx, err := b.conn.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	results, err := b.conn.PgConn().Exec(t.Context(), statement).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	for _, r := range results {
		if tag := r.CommandTag; (tag.Update() || tag.Delete() || tag.Insert()) && tag.RowsAffected() == 0 {
			t.Fatalf("%s: it changes nothing", statement)
		}
	}
	v := &verifier{scope: b.scope}
	must(t, v.all(t.Context(), tx))
	var names []string
	for _, one := range v.found {
		names = append(names, one.Invariant.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// everything makes a turn of each kind, in a topic of its kind's name.
func everything(t *testing.T, s *Store) {
	t.Helper()
	must(t, s.EnsureTenant(t.Context(), "other"))
	unsafe, keyed := putTool(t, s, "delete_file", model.EffectUnsafe), putTool(t, s, "pay", model.EffectKeyed)
	decide := func(c *model.Call, approved bool) {
		_, err := s.Decide(t.Context(), tenant, verdict(c, approved, "bob"))
		must(t, err)
	}
	claim := func(c *model.Call, lease time.Duration) {
		claim := claimOf(c, "token-"+string(c.ID))
		claim.Lease = lease
		_, err := s.Claim(t.Context(), tenant, c.ID, claim)
		must(t, err)
	}
	finish := func(c *model.Call, fence int64, r model.Result) {
		_, err := s.Finish(t.Context(), tenant, c.ID, fence, "token-"+string(c.ID), r)
		must(t, err)
	}
	done := model.Result{Kind: model.ResultSucceeded, Output: []byte(`1`)}

	resolved := unknown(t, s, "resolved", unsafe)
	_, err := s.Resolve(t.Context(), tenant, resolved.ID, resolution(model.ResolvedHappened, ""))
	must(t, err)
	late, err := s.Finish(t.Context(), tenant, resolved.ID, 1, "token", done)
	if late.Call == nil {
		t.Fatal(err)
	}

	approved := register(t, s, registration("approved", asking(unsafe, "a"), asking(unsafe, "b"))).Turn
	for _, c := range approved.Calls {
		decide(c, true)
	}
	for _, c := range approved.Calls {
		claim(c, time.Minute)
		finish(c, 1, done)
	}
	next := registration("approved", asking(unsafe, "c"))
	next.Message, next.Continues, next.Content = "", approved.ID, sum("next")
	register(t, s, next)

	decide(register(t, s, registration("denied", asking(unsafe, "a"))).Turn.Calls[0], false)
	register(t, s, registration("open", asking(unsafe, "a"), allowed(unsafe, "b")))
	register(t, s, registration("queued", allowed(keyed, "a")))
	claim(register(t, s, registration("started", allowed(keyed, "a"))).Turn.Calls[0], time.Minute)

	again := register(t, s, registration("again", allowed(keyed, "a"))).Turn.Calls[0]
	claim(again, time.Minute)
	finish(again, 1, model.Result{Kind: model.ResultUnknown, Text: "cut"})
	exec(t, s, `update calls set not_before = clock_timestamp() where topic_id = 'again'`)
	claim(again, time.Minute)
	finish(again, 2, done)

	claim(register(t, s, registration("unknown", allowed(unsafe, "a"))).Turn.Calls[0], time.Nanosecond)
	_, err = s.LoseLeases(t.Context())
	must(t, err)

	register(t, s, registration("cancelled", asking(unsafe, "a"), allowed(unsafe, "b")))
	_, err = s.Cancel(t.Context(), tenant, "cancelled", "", "key:ops", "api")
	must(t, err)

	expired := registration("expired", asking(unsafe, "a"))
	expired.Expiry = time.Nanosecond
	register(t, s, expired)
	_, err = s.ExpireApprovals(t.Context())
	must(t, err)

	_, err = s.AppendMessages(t.Context(), tenant, asks("asked", "q"))
	must(t, err)
	live := registration("live")
	live.Live = time.Minute
	register(t, s, live)
	_, err = s.AppendMessages(t.Context(), tenant, Appending{Topic: "live", WhileOpen: WhileOpenParallel, Messages: []NewMessage{
		{ID: "u1", Role: "user", Parts: []byte(`[]`), Content: sum("u1")}, {ID: "u2", Role: "user", Parts: []byte(`[]`), Content: sum("u2")},
	}})
	must(t, err)
	linkAudit(t, s)
	// Where the transactions of tests beside this one would let it be.
	exec(t, s, `update audit_chainer set horizon = (select max(xid) + 1 from audit)`)
	register(t, s, registration("unlinked", asking(unsafe, "a")))
}

func linkAudit(t *testing.T, s *Store) {
	t.Helper()
	for n := 1; n > 0; {
		var err error
		n, err = s.LinkAudit(t.Context())
		must(t, err)
	}
}
