package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// AuditHead is the last link of a tenant's chain. Whoever keeps it somewhere
// else can show later that nothing was cut off behind it (I10).
type AuditHead struct {
	Tenant model.TenantID
	Seq    int64
	Hash   []byte
}

// String is the head as it is logged, printed and given back: seq:hash.
func (h AuditHead) String() string { return fmt.Sprintf("%d:%s", h.Seq, hex.EncodeToString(h.Hash)) }

// linkLimit bounds the rows of one [Store.LinkAudit].
const linkLimit = 4000

// LinkAudit links audit rows that are in no chain yet into their tenants'
// chains, and returns how many, at most 4,000: with so many there may be more.
// Any number of nodes may call it; one at a time does the work, and the others
// get 0 at once. It locks no row that anybody else writes, so nobody's commit
// waits for it.
//
// Rows become visible in another order than they were numbered in. So the
// order of a chain is that of linking, and what is looked at is whatever no
// finished transaction before the horizon wrote.
func (s *Store) LinkAudit(ctx context.Context) (int, error) {
	var links links
	err := transact(ctx, s.pool, "link audit", func(ctx context.Context, t *tx) error {
		links = newLinks()
		if err := t.trip(ctx, links.lock); err != nil || !links.mine {
			return err
		}
		err := t.trip(ctx, func(b *pgx.Batch) { b.Queue(selectUnlinked, links.horizon, linkLimit).Query(links.scanRows) })
		if err != nil || len(links.rows) == 0 && links.next < links.horizon+idleHorizon {
			return err
		}
		err = t.trip(ctx, func(b *pgx.Batch) { b.Queue(selectHeads, links.tenants()).Query(links.scanHeads) })
		if err != nil {
			return err
		}
		links.make()
		return t.commit(ctx, links.save)
	})
	return len(links.ids), unavailable(err)
}

// idleHorizon is how far the horizon may fall behind, in transactions, before
// it is moved though there was nothing to link: an idle system writes nothing.
const idleHorizon = 10_000

// lock makes this the chainer, or not. Few of many rows are looked for, each
// by its key, whatever the statistics say about tables that just grew.
func (l *links) lock(b *pgx.Batch) {
	for _, way := range []string{"seqscan", "hashjoin", "mergejoin"} {
		b.Queue("set local enable_" + way + " = off")
	}
	b.Queue(lockChainer).Query(l.scanHorizon)
}

const lockChainer = `
	select horizon from audit_chainer
	   for update skip locked`

// selectUnlinked gives a row without a link its canonical bytes. A horizon
// ahead of every transaction is from another server, whose rows were restored
// here; it says nothing.
var selectUnlinked = `
	select u.tenant_id, u.audit_id, u.xid, ` + canonicalAudit + `, pg_snapshot_xmin(pg_current_snapshot())::text::bigint
	  from (select true) here
	  left join audit u on u.xid >= case when $1 > pg_snapshot_xmax(pg_current_snapshot())::text::bigint then 0 else $1 end
	        and not exists (select from audit_chain c where c.tenant_id = u.tenant_id and c.audit_id = u.audit_id)
	 order by u.xid, u.audit_id
	 limit $2`

// canonicalAudit is the audit row u as it is hashed: every column, each with
// its length before it; a null has the length -1. It stands in the statements,
// and not in a function of the database, so that who can change the database
// cannot change what verifies it.
var canonicalAudit = auditField("convert_to(u.tenant_id, 'UTF8')") + "||" + auditField("int8send(u.audit_id)") +
	"||" + auditField("int8send((extract(epoch from u.at) * 1000000)::bigint)") +
	"||" + auditField("convert_to(u.actor, 'UTF8')") + "||" + auditField("convert_to(u.action, 'UTF8')") +
	"||" + auditField("convert_to(u.channel, 'UTF8')") + "||" + auditField("convert_to(u.topic_id, 'UTF8')") +
	"||" + auditField("uuid_send(u.turn_id)") + "||" + auditField("uuid_send(u.call_id)") + "||" + auditField("uuid_send(u.approval_id)") +
	"||" + auditField("convert_to(u.detail, 'UTF8')") + "||" + auditField("u.digest")

func auditField(bytes string) string {
	return "int8send(coalesce(length(" + bytes + "), -1)) || coalesce(" + bytes + ", '')"
}

// selectHeads finds each tenant's last link.
const selectHeads = `
	select t.tenant_id, c.seq, c.hash
	  from unnest($1::text[]) as t (tenant_id)
	 cross join lateral (select seq, hash from audit_chain c
	                      where c.tenant_id = t.tenant_id
	                      order by seq desc
	                      limit 1) c`

// firstLink is what the first link of a tenant's chain has before it.
func firstLink(tenant model.TenantID) []byte {
	h := sha256.Sum256([]byte("countersign-audit-v1 " + string(tenant)))
	return h[:]
}

// links is what one transaction of the chainer links.
type links struct {
	mine          bool
	horizon, next int64
	rows          []unlinked
	heads         map[model.TenantID]AuditHead

	of           []string
	seqs, ids    []int64
	prevs, hashs [][]byte
}

type unlinked struct {
	tenant model.TenantID
	id     int64
	bytes  []byte
}

func newLinks() links { return links{heads: map[model.TenantID]AuditHead{}} }

func (l *links) scanHorizon(rows pgx.Rows) error {
	for rows.Next() {
		l.mine = true
		if err := rows.Scan(&l.horizon); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (l *links) scanRows(rows pgx.Rows) error {
	var tenant *string
	var id, xid *int64
	var canonical []byte
	_, err := pgx.ForEachRow(rows, []any{&tenant, &id, &xid, &canonical, &l.next}, func() error {
		if tenant == nil {
			return nil // nothing but the snapshot
		}
		l.rows = append(l.rows, unlinked{model.TenantID(*tenant), *id, canonical})
		canonical = nil
		if len(l.rows) == linkLimit {
			l.next = min(l.next, *xid) // there may be more of this transaction
		}
		return nil
	})
	return err
}

func (l *links) tenants() []string {
	var out []string
	seen := map[model.TenantID]bool{}
	for _, r := range l.rows {
		if !seen[r.tenant] {
			seen[r.tenant] = true
			out = append(out, string(r.tenant))
		}
	}
	return out
}

func (l *links) scanHeads(rows pgx.Rows) error {
	heads, err := scanHeads(rows)
	for _, h := range heads {
		l.heads[h.Tenant] = h
	}
	return err
}

func scanHeads(rows pgx.Rows) ([]AuditHead, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (h AuditHead, err error) {
		err = row.Scan(&h.Tenant, &h.Seq, &h.Hash)
		return h, err
	})
}

func (l *links) make() {
	for _, r := range l.rows {
		head, ok := l.heads[r.tenant]
		if !ok {
			head = AuditHead{Tenant: r.tenant, Hash: firstLink(r.tenant)}
		}
		hash := sha256.Sum256(append(append([]byte{}, head.Hash...), r.bytes...))
		l.of, l.seqs, l.ids = append(l.of, string(r.tenant)), append(l.seqs, head.Seq+1), append(l.ids, r.id)
		l.prevs, l.hashs = append(l.prevs, head.Hash), append(l.hashs, hash[:])
		l.heads[r.tenant] = AuditHead{r.tenant, head.Seq + 1, hash[:]}
	}
}

func (l *links) save(b *pgx.Batch) {
	if len(l.ids) > 0 {
		b.Queue(insertLinks, l.of, l.seqs, l.ids, l.prevs, l.hashs)
	}
	b.Queue(`update audit_chainer set horizon = $1`, l.next)
}

const insertLinks = `
	insert into audit_chain (tenant_id, seq, audit_id, prev, hash)
	select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[])`

// AuditHeads gives the last link of every tenant's chain, by tenant.
func (s *Store) AuditHeads(ctx context.Context) ([]AuditHead, error) {
	rows, err := s.pool.Query(ctx, `
	select t.tenant_id, c.seq, c.hash
	  from tenants t
	 cross join lateral (select seq, hash from audit_chain c where c.tenant_id = t.tenant_id order by seq desc limit 1) c
	 order by t.tenant_id`)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := scanHeads(rows)
	return out, unavailable(err)
}

// HasAuditHead tells whether a head that was kept is still a link of its
// tenant's chain, wherever the chain ends now.
func (s *Store) HasAuditHead(ctx context.Context, h AuditHead) (bool, error) {
	var there bool
	err := s.pool.QueryRow(ctx, `
	select exists (select from audit_chain where tenant_id = $1 and seq = $2 and hash = $3)`, h.Tenant, h.Seq, h.Hash).Scan(&there)
	return there, unavailable(err)
}
