package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/bugs"
	"github.com/countersign/countersign/pkg/model"
)

// unit is what one transaction holds: turns under their row locks, with the
// calls and the continuation of each, as the rules of package model change
// them, and how each turn stood before. save writes the difference.
type unit struct {
	tenant model.TenantID
	now    time.Time // the database's clock, read after the locks
	turns  map[model.TurnID]*model.Turn
	before map[model.TurnID]model.TurnStanding
	fresh  map[model.TurnID]bool // turns whose rows this transaction inserts itself
	queued map[model.TurnID]bool // which were, before
	topics map[model.TopicID]*model.Topic
	ended  map[model.TopicID]model.TopicStatus // of the turn that ended last in this transaction
	seen   map[model.TopicID]*model.Topic      // topics as they were read, not locked; for answers alone

	inserts  *inserts                    // of a transaction that makes turns or calls; else nil
	suspects map[repeatable]model.CallID // calls that new ones may repeat; nil where there is none
}

func newUnit(tenant model.TenantID) *unit {
	return &unit{
		tenant: tenant,
		turns:  map[model.TurnID]*model.Turn{},
		before: map[model.TurnID]model.TurnStanding{},
		fresh:  map[model.TurnID]bool{},
		queued: map[model.TurnID]bool{},
		topics: map[model.TopicID]*model.Topic{},
		ended:  map[model.TopicID]model.TopicStatus{},
		seen:   map[model.TopicID]*model.Topic{},
	}
}

// load locks the turns that a subselect names and reads what belongs to them.
// which is a query of turn ids; $1 in it is the tenant.
//
// Here and in every hot statement one table is read by an array of keys, which
// is evaluated first and goes into the index condition, and what belongs to a
// row of it is looked up by its whole key. So one plan is right for a tenant
// that owns three rows and for one that owns nearly all of them. Only on tables
// that nobody has analyzed yet, as autovacuum does within minutes, it may be
// one that reads too much.
func (u *unit) load(b *pgx.Batch, which string, args ...any) {
	u.queue(b, forUpdate, `= any(array(`+which+`))`, args)
	u.queueReplies(b, which, args)
}

// loadByCalls is load for turns that are named by calls or approvals of
// theirs, none of which asks for a reply; owner finds the one turn of an id,
// of which $2 has the array. For a lone id it is a plain lookup, which has
// nothing to sort.
func (u *unit) loadByCalls(b *pgx.Batch, owner string, ids []string) {
	if len(ids) == 1 {
		u.queue(b, forUpdate, `= (`+ofOne(owner)+`)`, []any{ids[0]})
	} else {
		u.queue(b, forUpdate, `= any(array(`+owner+`))`, []any{ids})
	}
}

// read is load without the locks, for a look.
func (u *unit) read(b *pgx.Batch, which string, args ...any) {
	u.queue(b, "", `= any(array(`+which+`))`, args)
	u.queueReplies(b, which, args)
}

const forUpdate = "for no key update"

func (u *unit) queue(b *pgx.Batch, lock, which string, args []any) {
	if bugs.NoTurnLock {
		lock = ""
	}
	args = append([]any{u.tenant}, args...)
	where := ` where tenant_id = $1 and turn_id ` + which
	b.Queue(`select `+turnColumns+` from turns`+where+` order by turn_id `+lock, args...).Query(u.scanTurns)
	b.Queue(selectCallsOfTurns+where, args...).Query(u.scanCalls)
}

// queueReplies reads the continuations of turns that ask for a reply, which
// have no calls with which to come.
func (u *unit) queueReplies(b *pgx.Batch, which string, args []any) {
	b.Queue(selectContinuationsOfReplies+`and turn_id = any(array(`+which+`))))`, append([]any{u.tenant}, args...)...).Query(u.scanReplies)
}

const selectContinuationsOfReplies = `
	select turn_id::text, state as continuation_state, generation, ready_at, accepted_by::text
	  from continuations
	 where tenant_id = $1 and turn_id = any(array(
	       select turn_id from turns where tenant_id = $1 and reply `

// selectCallsOfTurns reads calls with the approval of each and the
// continuation of their turn; no other turn has one but those of
// [unit.queueReplies]. It comes after the locks: what the statement that waited
// for them joins is old. With "offset 0" the lookups stay lookups, one by one,
// whatever the planner thinks.
const selectCallsOfTurns = `
	select ` + callColumns + `,
	       approval_id::text, approval_state, ` + approvalAnswer + `,
	       continuation_state, coalesce(generation, 0), ready_at, accepted_by::text
	  from calls c
	  left join lateral (
	       select approval_id, state as approval_state, ` + approvalAnswer + `
	         from approvals a
	        where a.tenant_id = c.tenant_id and a.turn_id = c.turn_id and a.call_id = c.call_id
	        offset 0) a on true
	  left join lateral (
	       select state as continuation_state, generation, ready_at, accepted_by
	         from continuations k
	        where k.tenant_id = c.tenant_id and k.turn_id = c.turn_id
	        offset 0) k on true`

// clock reads the database's time; it comes last, after every lock.
func (u *unit) clock(b *pgx.Batch) {
	b.Queue(`select clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&u.now) })
}

func (u *unit) scanTurns(rows pgx.Rows) error {
	for rows.Next() {
		t, err := scanTurn(rows)
		if err != nil {
			return err
		}
		u.hold(t)
	}
	return rows.Err()
}

func (u *unit) hold(t *model.Turn) {
	t.Tenant = u.tenant
	u.turns[t.ID] = t
	if t.Queued {
		u.queued[t.ID] = true
	}
	u.before[t.ID] = t.Standing()
}

func (u *unit) scanCalls(rows pgx.Rows) error {
	for rows.Next() {
		var a approvalRow
		var k continuationRow
		c, turn, err := scanCall(rows, append(a.fields(), k.fields()...)...)
		if err != nil {
			return err
		}
		if c.Approval, err = a.approval(); err != nil {
			return err
		}
		if t := u.turns[turn]; t != nil {
			t.Calls = append(t.Calls, c)
			u.attachContinuation(t, &k)
		}
	}
	u.sortCalls()
	return rows.Err()
}

func (u *unit) scanReplies(rows pgx.Rows) error {
	for rows.Next() {
		var turn model.TurnID
		var k continuationRow
		if err := rows.Scan(append([]any{&turn}, k.fields()...)...); err != nil {
			return err
		}
		if t := u.turns[turn]; t != nil {
			u.attachContinuation(t, &k)
		}
	}
	return rows.Err()
}

// attachContinuation gives a turn its continuation, if there is one.
func (u *unit) attachContinuation(t *model.Turn, k *continuationRow) {
	if t.Continuation == nil && k.State != "" {
		t.Continuation = &k.Continuation
		u.before[t.ID] = t.Standing()
	}
}

// sortCalls brings each turn's calls into the order of their ids.
func (u *unit) sortCalls() {
	for _, t := range u.turns {
		slices.SortFunc(t.Calls, func(a, b *model.Call) int { return cmp.Compare(a.ID, b.ID) })
	}
}

// sorted gives the unit's turns by id, which is the order of writing.
func (u *unit) sorted() []*model.Turn {
	out := make([]*model.Turn, 0, len(u.turns))
	for _, t := range u.turns {
		out = append(out, t)
	}
	sortTurns(out)
	return out
}

func sortTurns(turns []*model.Turn) {
	slices.SortFunc(turns, func(a, b *model.Turn) int { return cmp.Compare(a.ID, b.ID) })
}

// dirty tells whether any turn was changed, and the first illegal edge that
// was tried.
func (u *unit) dirty() (bool, error) {
	changed := false
	for _, t := range u.turns {
		if err := t.Err(); err != nil {
			return false, err
		}
		changed = changed || t.Changed || len(t.Records.Attempts) > 0
	}
	return changed, nil
}
