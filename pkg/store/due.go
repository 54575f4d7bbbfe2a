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
	Queued        bool // a reply of the topics is queued: its turn may have come
}

// DueIn looks at topics that a signal named: what was just queued and not
// hinted at, what became ready and was not delivered.
func (s *Store) DueIn(ctx context.Context, topics []TopicKey) (Due, error) {
	byTenant := map[model.TenantID][]string{}
	for _, t := range topics {
		byTenant[t.Tenant] = append(byTenant[t.Tenant], string(t.Topic))
	}
	var all Due
	for tenant, ids := range byTenant {
		if err := s.due(ctx, &all, selectDueInTopics, tenant, ids); err != nil {
			return all, err
		}
	}
	return all, nil
}

var selectDueInTopics = selectDue(`topic_id = any($2::text[]) and open`, `published_at is null`, `state = 'ready'`)

// DueAnywhere is the sweep: runs that are queued since a while without a
// hint, or whose hint came to nothing, and continuations whose time has come
// again. It finds whatever a lost signal or a lost message left behind.
func (s *Store) DueAnywhere(ctx context.Context, unhinted, unclaimed time.Duration, limit int) (Due, error) {
	rows, err := s.pool.Query(ctx, selectDueTurns, unhinted.Milliseconds(), unclaimed.Milliseconds(), limit)
	if err != nil {
		return Due{}, unavailable(err)
	}
	byTenant := map[model.TenantID][]string{}
	var tenant model.TenantID
	var turn string
	if _, err = pgx.ForEachRow(rows, []any{&tenant, &turn}, func() error {
		byTenant[tenant] = append(byTenant[tenant], turn)
		return nil
	}); err != nil {
		return Due{}, unavailable(err)
	}
	var all Due
	for tenant, ids := range byTenant {
		if err := s.due(ctx, &all, selectDueOfTurns, tenant, ids, unclaimed.Milliseconds()); err != nil {
			return all, err
		}
	}
	return all, nil
}

var selectDueOfTurns = selectDue(`turn_id = any($2::uuid[])`,
	`(published_at is null or published_at <= clock_timestamp() - $3 * interval '1 millisecond')`, `state in ('ready', 'dispatched')`)

const selectDueTurns = `
	(select tenant_id, turn_id::text
	   from calls
	  where run = 'queued' and not polled and not_before <= clock_timestamp()
	    and queued_at <= clock_timestamp() - $1 * interval '1 millisecond'
	    and (published_at is null or published_at <= clock_timestamp() - $2 * interval '1 millisecond')
	  order by queued_at
	  limit $3)
	 union
	(select tenant_id, turn_id::text
	   from continuations
	  where state in ('ready', 'dispatched') and next_at <= clock_timestamp() - $1 * interval '1 millisecond'
	  order by next_at
	  limit $3)`

// selectDue is the statement that reads what is due of the turns that a
// condition names: only those that have something to run or to continue, which
// most signals are not about, and of each then its runs and its continuation.
// What is held or polled never gets here: its rows say that nothing is owed.
//
// Each "offset 0" keeps what is asked of a row from the lookup of it: else the
// planner may look through an index of all that is queued, or of all that is
// due, for what belongs to one turn.
func selectDue(turns, run, continuation string) string {
	return `
	select t.turn_id::text, topic_id, message_id, version, sink_type, sink_target, accept_within_ms, traceparent,
	       t.queued, call_id::text, tool_call_id, executor, fence, published,
	       generation, deliveries, edited_tools, edited_calls
	  from (select * from turns
	         where tenant_id = $1 and ` + turns + `
	           and (open_calls > open_approvals + unknown_calls or state = 'continuing')
	        offset 0) t
	  left join lateral (
	       select call_id, tool_call_id, executor, fence, published
	         from (select * from calls
	                where tenant_id = $1 and turn_id = t.turn_id and t.open_calls > t.open_approvals + t.unknown_calls
	               offset 0) c
	        where run = 'queued' and not polled and not_before <= clock_timestamp() and ` + run + `
	       offset 0) c on true
	  left join lateral (
	       select generation, deliveries,
	              array(select tool from calls e where ` + editedCalls + `) as edited_tools,
	              array(select tool_call_id from calls e where ` + editedCalls + `) as edited_calls
	         from (select * from continuations
	                where tenant_id = $1 and turn_id = t.turn_id and t.state = 'continuing'
	               offset 0) k
	        where next_at <= clock_timestamp() and ` + continuation + `
	       offset 0) k on true`
}

const editedCalls = `e.tenant_id = $1 and e.turn_id = t.turn_id and e.edited order by e.part`

// due adds to all what is due of a tenant.
func (s *Store) due(ctx context.Context, all *Due, statement string, tenant model.TenantID, args ...any) error {
	rows, err := s.hot.Query(ctx, statement, append([]any{tenant}, args...)...)
	if err == nil {
		err = all.scan(tenant, rows)
	}
	return unavailable(err)
}

// scan reads the rows of selectDue: one per run of a turn, or one for a turn
// that has none, each with the turn's continuation if that is due.
func (d *Due) scan(tenant model.TenantID, rows pgx.Rows) error {
	defer rows.Close()
	var last model.TurnID
	for rows.Next() {
		var run dueRunRow
		c := DueContinuation{Tenant: tenant}
		var generation, deliveries *int
		var target string
		var accept int64
		var tools, toolCalls []string
		var queued bool
		if err := rows.Scan(&c.Turn, &c.Topic, &c.Message, &c.Version, &c.Sink.Type, &target, &accept, &c.Traceparent,
			&queued, &run.call, &run.toolCall, &run.executor, &run.fence, &run.published,
			&generation, &deliveries, &tools, &toolCalls); err != nil {
			return err
		}
		d.Queued = d.Queued || queued
		c.Sink = sinkOf(c.Sink.Type, target, accept)
		if run.call != nil {
			d.Runs = append(d.Runs, run.of(&c))
		}
		if generation != nil && c.Turn != last {
			c.Generation, c.Deliveries, c.Notes = *generation, *deliveries, editNotes(tools, toolCalls)
			d.Continuations = append(d.Continuations, c)
		}
		last = c.Turn
	}
	return rows.Err()
}

// dueRunRow is a run's part of a row, or nothing.
type dueRunRow struct {
	call      *model.CallID
	toolCall  *string
	executor  *model.Executor
	fence     *int64
	published *int
}

func (r *dueRunRow) of(t *DueContinuation) DueRun {
	return DueRun{Tenant: t.Tenant, Topic: t.Topic, Turn: t.Turn, Message: t.Message, Sink: t.Sink, Traceparent: t.Traceparent,
		Call: *r.call, ToolCallID: *r.toolCall, Executor: *r.executor, Fence: *r.fence, Published: *r.published}
}

func editNotes(tools, toolCalls []string) []model.Note {
	var out []model.Note
	for i := range tools {
		out = append(out, model.EditNote(tools[i], toolCalls[i]))
	}
	return out
}
