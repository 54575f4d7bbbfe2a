package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// TopicKey names a topic.
type TopicKey struct {
	Tenant model.TenantID
	Topic  model.TopicID
}

// DueRun is a queued run whose hint is owed.
type DueRun struct {
	Tenant      model.TenantID
	Topic       model.TopicID
	Turn        model.TurnID
	Message     model.MessageID
	Call        model.CallID
	ToolCallID  string
	Executor    model.Executor
	Fence       int64
	Published   int // hints sent for this queueing before
	Sink        model.Sink
	Traceparent string
}

// DueContinuation is a continuation that is to be delivered now.
type DueContinuation struct {
	Tenant      model.TenantID
	Topic       model.TopicID
	Turn        model.TurnID
	Message     model.MessageID
	Version     int64
	Generation  int
	Deliveries  int
	Sink        model.Sink
	Notes       []model.Note
	Traceparent string
}

// Due is what a look at some topics, or a sweep over all, found to do.
type Due struct {
	Runs          []DueRun
	Continuations []DueContinuation
}

const dueRunColumns = `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.message_id, c.call_id::text, c.tool_call_id, c.executor, c.fence,
	       c.published, t.sink_type, t.sink_target, t.accept_within_ms, t.traceparent
	  from calls c
	  join turns t on t.tenant_id = c.tenant_id and t.turn_id = c.turn_id
	 where c.run = 'queued' and (c.executor = 'worker' or t.sink_type <> 'none')`

const dueContinuationColumns = `
	select k.tenant_id, k.topic_id, k.turn_id::text, t.message_id, p.version, k.generation, k.deliveries, t.sink_type,
	       t.sink_target, t.accept_within_ms, t.traceparent,
	       array(select c.tool from calls c
	              where c.tenant_id = k.tenant_id and c.turn_id = k.turn_id and c.edited order by c.part),
	       array(select c.tool_call_id from calls c
	              where c.tenant_id = k.tenant_id and c.turn_id = k.turn_id and c.edited order by c.part)
	  from continuations k
	  join turns t using (tenant_id, turn_id)
	  join topics p on p.tenant_id = k.tenant_id and p.topic_id = k.topic_id
	 where t.sink_type <> 'none' and t.hold_until is null`

// DueIn looks at topics that a signal named: what was just queued and not
// hinted at, what became ready and was not delivered.
func (s *Store) DueIn(ctx context.Context, topics []TopicKey) (Due, error) {
	byTenant := map[model.TenantID][]string{}
	for _, t := range topics {
		byTenant[t.Tenant] = append(byTenant[t.Tenant], string(t.Topic))
	}
	var all Due
	for tenant, ids := range byTenant {
		args := []any{tenant, ids}
		due, err := s.due(ctx, dueRunsIn, args, dueContinuationsIn, args)
		if err != nil {
			return all, err
		}
		all.Runs, all.Continuations = append(all.Runs, due.Runs...), append(all.Continuations, due.Continuations...)
	}
	return all, nil
}

// openTurnsIn are the open turns of the topics of one tenant.
const openTurnsIn = `array(
	          select turn_id from turns
	           where tenant_id = $1 and topic_id = any($2::text[]) and state not in ('aborted', 'error', 'done'))`

const dueRunsIn = dueRunColumns + `
	   and c.tenant_id = $1 and c.turn_id = any(` + openTurnsIn + `)
	   and t.tenant_id = $1 and t.turn_id = any(` + openTurnsIn + `)
	   and c.published_at is null and c.not_before <= clock_timestamp()`

const dueContinuationsIn = dueContinuationColumns + `
	   and k.tenant_id = $1 and k.turn_id = any(` + openTurnsIn + `)
	   and t.tenant_id = $1 and t.turn_id = any(` + openTurnsIn + `)
	   and p.tenant_id = $1 and p.topic_id = any($2::text[])
	   and k.state = 'ready' and k.next_at <= clock_timestamp()`

// DueAnywhere is the sweep: runs that are queued since a while without a
// hint, or whose hint came to nothing, and continuations whose time has come
// again. It finds whatever a lost signal or a lost message left behind.
func (s *Store) DueAnywhere(ctx context.Context, unhinted, unclaimed time.Duration, limit int) (Due, error) {
	return s.due(ctx,
		dueRunsAnywhere, []any{unhinted.Milliseconds(), unclaimed.Milliseconds(), limit},
		dueContinuationsAnywhere, []any{unhinted.Milliseconds(), limit})
}

const dueRunsAnywhere = dueRunColumns + `
	   and c.not_before <= clock_timestamp()
	   and c.queued_at <= clock_timestamp() - $1 * interval '1 millisecond'
	   and (c.published_at is null or c.published_at <= clock_timestamp() - $2 * interval '1 millisecond')
	 order by c.queued_at
	 limit $3`

const dueContinuationsAnywhere = dueContinuationColumns + `
	   and k.next_at <= clock_timestamp() - $1 * interval '1 millisecond'
	   and k.state in ('ready', 'dispatched')
	 order by k.next_at
	 limit $2`

func (s *Store) due(ctx context.Context, runs string, runArgs []any, continuations string, args []any) (Due, error) {
	var due Due
	b := &pgx.Batch{}
	b.Queue(runs, runArgs...).Query(func(rows pgx.Rows) (err error) {
		due.Runs, err = pgx.CollectRows(rows, scanDueRun)
		return err
	})
	b.Queue(continuations, args...).Query(func(rows pgx.Rows) (err error) {
		due.Continuations, err = pgx.CollectRows(rows, scanDueContinuation)
		return err
	})
	return due, unavailable(s.pool.SendBatch(ctx, b).Close())
}

func scanDueRun(row pgx.CollectableRow) (r DueRun, err error) {
	var target string
	var accept int64
	err = row.Scan(&r.Tenant, &r.Topic, &r.Turn, &r.Message, &r.Call, &r.ToolCallID, &r.Executor, &r.Fence, &r.Published,
		&r.Sink.Type, &target, &accept, &r.Traceparent)
	r.Sink = sinkOf(r.Sink.Type, target, accept)
	return r, err
}

func scanDueContinuation(row pgx.CollectableRow) (c DueContinuation, err error) {
	var target string
	var accept int64
	var tools, toolCallIDs []string
	err = row.Scan(&c.Tenant, &c.Topic, &c.Turn, &c.Message, &c.Version, &c.Generation, &c.Deliveries, &c.Sink.Type, &target,
		&accept, &c.Traceparent, &tools, &toolCallIDs)
	for i := range tools {
		c.Notes = append(c.Notes, model.EditNote(tools[i], toolCallIDs[i]))
	}
	c.Sink = sinkOf(c.Sink.Type, target, accept)
	return c, err
}

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
	return transact(ctx, s.pool, "mark", func(t *tx) error {
		return t.commit(ctx, func(out *pgx.Batch) { out.QueuedQueries = append(out.QueuedQueries, b.QueuedQueries...) })
	})
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
	      from unnest($1::text[], $2::text[]::uuid[], $3::bigint[]) as h (tenant_id, call_id, fence)
	      join calls c on c.tenant_id = h.tenant_id and c.call_id = h.call_id and c.fence = h.fence and c.run = 'queued'
	                  and c.tenant_id = any($1::text[]) and c.call_id = any($2::text[]::uuid[])
	       for no key update of c skip locked
	)
	update calls c
	   set published = c.published + 1,
	       published_at = clock_timestamp()
	  from free
	 where c.tenant_id = free.tenant_id and c.call_id = free.call_id
	   and c.tenant_id = any($1::text[]) and c.call_id = any($2::text[]::uuid[])`

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
	      from unnest($1::text[], $2::text[]::uuid[], $3::int[], $4::bigint[]) as d (tenant_id, turn_id, generation, again)
	      join continuations k on k.tenant_id = d.tenant_id and k.turn_id = d.turn_id and k.generation = d.generation
	                          and k.state in ('ready', 'dispatched')
	                          and k.tenant_id = any($1::text[]) and k.turn_id = any($2::text[]::uuid[])
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
	   and k.tenant_id = any($1::text[]) and k.turn_id = any($2::text[]::uuid[])`

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
	    select t.tenant_id, t.topic_id, s.version
	      from unnest($1::text[], $2::text[], $3::bigint[]) as s (tenant_id, topic_id, version)
	      join topics t on t.tenant_id = s.tenant_id and t.topic_id = s.topic_id and t.signalled < s.version
	                   and t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])
	       for no key update of t skip locked
	)
	update topics t
	   set signalled = free.version
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
	 where version > signalled and updated_at <= clock_timestamp() - $1 * interval '1 millisecond'
	 order by updated_at
	 limit $2`

// LeaseDelivery takes a continuation for one delivery that may take a while,
// such as a webhook's, so that two continuers do not make it at once. It
// reports whether this one has it.
func (s *Store) LeaseDelivery(ctx context.Context, c DueContinuation, lease time.Duration) (bool, error) {
	tag, err := s.pool.Exec(ctx, leaseDelivery, c.Tenant, string(c.Turn), c.Generation, c.Deliveries, lease.Milliseconds())
	return tag.RowsAffected() == 1, unavailable(err)
}

const leaseDelivery = `
	update continuations
	   set next_at = clock_timestamp() + $5 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and generation = $3 and deliveries = $4
	   and state in ('ready', 'dispatched') and next_at <= clock_timestamp()`

// DeliveryFailed records why a delivery failed and when it is tried again.
func (s *Store) DeliveryFailed(ctx context.Context, c DueContinuation, reason string, again time.Duration) error {
	_, err := s.pool.Exec(ctx, deliveryFailed, c.Tenant, string(c.Turn), c.Generation, storable(reason), again.Milliseconds())
	return unavailable(err)
}

const deliveryFailed = `
	update continuations
	   set state = 'ready',
	       deliveries = deliveries + 1,
	       last_error = $4,
	       next_at = clock_timestamp() + $5 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and generation = $3 and state in ('ready', 'dispatched')`
