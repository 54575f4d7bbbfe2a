package store

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// I10: two chainers beside many writers link every row once, each tenant's in
// a chain of its own, and never wait for a writer.
func TestI10TheAuditIsLinkedOnce(t *testing.T) {
	t.Parallel()
	nodes := two(t)
	s := nodes[0]
	must(t, s.EnsureTenant(t.Context(), "other"))
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	ctx, stop := context.WithCancel(t.Context())
	var chainers, writers sync.WaitGroup
	for _, node := range nodes {
		chainers.Go(func() {
			for ctx.Err() == nil {
				if _, err := node.LinkAudit(context.Background()); err != nil {
					t.Errorf("link: %v", err)
					return
				}
			}
		})
	}
	for w := range 6 {
		writers.Go(func() {
			for i := range 20 {
				name := fmt.Sprintf("t%d-%d", w, i)
				out, err := nodes[w%2].Register(context.Background(), registration(name, asking(tool, "a")))
				if err == nil {
					_, err = nodes[i%2].Decide(context.Background(), tenant, verdict(out.Turn.Calls[0], true, "bob"))
				}
				if err == nil && i%5 == 0 {
					_, err = nodes[i%2].PutPolicy(context.Background(), "other", model.Policy{Name: name}, "key:ops", "api")
				}
				if err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	chainers.Wait()
	linkAudit(t, s)
	rows, links := scalar[int](t, s, `select count(*) from audit`), scalar[int](t, s, `select count(*) from audit_chain`)
	if rows == 0 || rows != links {
		t.Errorf("%d audit rows, %d links", rows, links)
	}
	requireInvariants(t, s, Scope{AtRest: true, Late: 1 << 40})
	heads, err := s.AuditHeads(t.Context())
	must(t, err)
	if len(heads) != 2 || heads[0].Tenant != tenant || heads[0].Seq+heads[1].Seq != int64(links) {
		t.Errorf("heads: %v of %d links", heads, links)
	}
}

// A row whose transaction commits after later ones were linked is linked when
// it is there; until then neither it nor its writer is waited for.
func TestARowThatBecomesVisibleLateIsLinkedThen(t *testing.T) {
	t.Parallel()
	s := open(t)
	putTool(t, s, "early", model.EffectRead)
	linkAudit(t, s)
	late, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = late.Rollback(context.Background()) }()
	_, err = late.Exec(t.Context(), `insert into audit (tenant_id, at, actor, action) values ('acme', clock_timestamp(), 'late', 'late')`)
	must(t, err)
	putTool(t, s, "later", model.EffectRead)
	if n, err := s.LinkAudit(t.Context()); err != nil || n != 1 {
		t.Fatalf("beside an open transaction %d rows were linked, want 1: %v", n, err)
	}
	must(t, late.Commit(t.Context()))
	if n, err := s.LinkAudit(t.Context()); err != nil || n != 1 {
		t.Fatalf("after it %d rows were linked, want 1: %v", n, err)
	}
	if last := scalar[string](t, s, `select u.action from audit u join audit_chain c using (tenant_id, audit_id) order by c.seq desc limit 1`); last != "late" {
		t.Errorf("the last link is of %q", last)
	}
	requireInvariants(t, s, Scope{})
}

// One chainer at a time: whoever comes second does nothing and waits for
// nobody.
func TestASecondChainerDoesNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	putTool(t, s, "one", model.EffectRead)
	first, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = first.Rollback(context.Background()) }()
	_, err = first.Exec(t.Context(), lockChainer)
	must(t, err)
	if n, err := s.LinkAudit(t.Context()); err != nil || n != 0 {
		t.Fatalf("a second chainer linked %d: %v", n, err)
	}
	must(t, first.Rollback(t.Context()))
	if n, err := s.LinkAudit(t.Context()); err != nil || n != 1 {
		t.Fatalf("the next linked %d: %v", n, err)
	}
}

// More rows than one look takes are linked by several, in one chain; and a
// horizon that a restored database brought from another server hides nothing.
func TestManyRowsAndAForeignHorizon(t *testing.T) {
	t.Parallel()
	s := open(t)
	exec(t, s, `insert into audit (tenant_id, at, actor, action) select 'acme', clock_timestamp(), 'n' || n, 'many' from generate_series(1, 9000) n`)
	exec(t, s, `update audit_chainer set horizon = 1::bigint << 60`)
	linkAudit(t, s)
	if n := scalar[int](t, s, `select count(*) from audit_chain`); n != 9000 {
		t.Fatalf("%d links", n)
	}
	requireInvariants(t, s, Scope{})
}

// The first link is bound to its tenant in Go and in SQL alike.
func TestTheFirstLinkIsTheTenants(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range []model.TenantID{"acme", "łódź"} {
		got := scalar[[]byte](t, s, `select sha256(convert_to('countersign-audit-v1 ' || $1, 'UTF8'))`, name)
		if !bytes.Equal(got, firstLink(name)) {
			t.Errorf("%s: %x in SQL, %x in Go", name, got, firstLink(name))
		}
	}
}
