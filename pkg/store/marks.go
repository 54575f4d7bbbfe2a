package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Hinted names a run whose hint was published.
type Hinted struct {
	Tenant model.TenantID
	Call   model.CallID
	Fence  int64
}

// Delivered names a continuation whose delivery was acknowledged, and when it
// is due again if nobody accepts it.
type Delivered struct {
	Tenant     model.TenantID
	Turn       model.TurnID
	Generation int
	Again      time.Duration
}

// Marks are what a dispatcher did since it last wrote it down. They are
// written in batches, never one commit per message; what is lost with a
// process is done once more, under the same message ids.
type Marks struct {
	Hinted    []Hinted
	Delivered []Delivered
	Signalled []Change
}

// Mark writes marks down. Each is guarded by the row still being as it was.
func (s *Store) Mark(ctx context.Context, m Marks) error {
	b := &pgx.Batch{}
	queueHinted(b, m.Hinted)
	queueDelivered(b, m.Delivered)
	queueSignalled(b, m.Signalled)
	if b.Len() == 0 {
		return nil
	}
	err := transact(ctx, s.hot, "mark", func(ctx context.Context, t *tx) error {
		return t.commit(ctx, func(out *pgx.Batch) { out.QueuedQueries = append(out.QueuedQueries, b.QueuedQueries...) })
	})
	return unavailable(err)
}

func queueHinted(b *pgx.Batch, hinted []Hinted) {
	var tenants, calls []string
	var fences []int64
	for _, h := range hinted {
		tenants, calls, fences = append(tenants, string(h.Tenant)), append(calls, string(h.Call)), append(fences, h.Fence)
	}
	if len(calls) > 0 {
		b.Queue(markHinted, tenants, calls, fences)
	}
}

// The marks touch only rows that nobody else has locked: one that is busy is
// marked by the next sweep, or needs no mark any more.
const markHinted = `
	with free as (
	    select c.tenant_id, c.call_id
	      from unnest($1::text[], $2::uuid[], $3::bigint[]) as h (tenant_id, call_id, fence)
	      join calls c on c.tenant_id = h.tenant_id and c.call_id = h.call_id and c.fence = h.fence and c.run = 'queued'
	                  and c.tenant_id = any($1::text[]) and c.call_id = any($2::uuid[])
	       for no key update of c skip locked
	)
	update calls c
	   set published = c.published + 1,
	       published_at = clock_timestamp()
	  from free
	 where c.tenant_id = free.tenant_id and c.call_id = free.call_id
	   and c.tenant_id = any($1::text[]) and c.call_id = any($2::uuid[])`

func queueDelivered(b *pgx.Batch, delivered []Delivered) {
	var tenants, turns []string
	var generations []int
	var again []int64
	for _, d := range delivered {
		tenants, turns = append(tenants, string(d.Tenant)), append(turns, string(d.Turn))
		generations, again = append(generations, d.Generation), append(again, d.Again.Milliseconds())
	}
	if len(turns) > 0 {
		b.Queue(markDelivered, tenants, turns, generations, again)
	}
}

const markDelivered = `
	with free as (
	    select k.tenant_id, k.turn_id, d.again
	      from unnest($1::text[], $2::uuid[], $3::int[], $4::bigint[]) as d (tenant_id, turn_id, generation, again)
	      join continuations k on k.tenant_id = d.tenant_id and k.turn_id = d.turn_id and k.generation = d.generation
	                          and k.state in ('ready', 'dispatched')
	                          and k.tenant_id = any($1::text[]) and k.turn_id = any($2::uuid[])
	       for no key update of k skip locked
	)
	update continuations k
	   set state = 'dispatched',
	       deliveries = k.deliveries + 1,
	       delivered_at = clock_timestamp(),
	       next_at = clock_timestamp() + free.again * interval '1 millisecond',
	       last_error = ''
	  from free
	 where k.tenant_id = free.tenant_id and k.turn_id = free.turn_id
	   and k.tenant_id = any($1::text[]) and k.turn_id = any($2::uuid[])`

func queueSignalled(b *pgx.Batch, signalled []Change) {
	var tenants, topics []string
	var versions []int64
	for _, c := range signalled {
		tenants, topics, versions = append(tenants, string(c.Tenant)), append(topics, string(c.Topic)), append(versions, c.Version)
	}
	if len(topics) > 0 {
		b.Queue(markSignalled, tenants, topics, versions)
	}
}

const markSignalled = `
	with free as (
	    select t.tenant_id, t.topic_id
	      from unnest($1::text[], $2::text[], $3::bigint[]) as s (tenant_id, topic_id, version)
	      join topics t on t.tenant_id = s.tenant_id and t.topic_id = s.topic_id and t.version = s.version and t.owed
	                   and t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])
	       for no key update of t skip locked
	)
	update topics t
	   set owed = false
	  from free
	 where t.tenant_id = free.tenant_id and t.topic_id = free.topic_id
	   and t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])`

// OwedSignals finds topics whose last change was not signalled for a while.
func (s *Store) OwedSignals(ctx context.Context, since time.Duration, limit int) ([]Change, error) {
	rows, err := s.pool.Query(ctx, selectOwedSignals, since.Milliseconds(), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change, err error) {
		err = row.Scan(&c.Tenant, &c.Topic, &c.Version)
		return c, err
	})
	return out, unavailable(err)
}

const selectOwedSignals = `
	select tenant_id, topic_id, version
	  from topics
	 where owed and updated_at <= clock_timestamp() - $1 * interval '1 millisecond'
	 order by updated_at
	 limit $2`

// RecentChanges finds topics that changed within a time, as far as the last
// limit lines of the audit tell, with their versions as they are now.
func (s *Store) RecentChanges(ctx context.Context, within time.Duration, limit int) ([]Change, error) {
	rows, err := s.pool.Query(ctx, selectRecentChanges, within.Milliseconds(), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Change, err error) {
		err = row.Scan(&c.Tenant, &c.Topic, &c.Version)
		return c, err
	})
	return out, unavailable(err)
}

const selectRecentChanges = `
	select p.tenant_id, p.topic_id, p.version
	  from (select distinct tenant_id, topic_id
	          from (select tenant_id, topic_id, at from audit order by xid desc limit $2) last
	         where at >= clock_timestamp() - $1 * interval '1 millisecond' and topic_id <> '') changed
	  join topics p using (tenant_id, topic_id)`
