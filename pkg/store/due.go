package store

import (
	"context"
	"strconv"
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

// DueIn looks at topics that a signal named: what was just queued and not
// hinted at, what became ready and was not delivered.
func (s *Store) DueIn(ctx context.Context, topics []TopicKey) (Due, error) {
	byTenant := map[model.TenantID][]string{}
	for _, t := range topics {
		byTenant[t.Tenant] = append(byTenant[t.Tenant], string(t.Topic))
	}
	var all Due
	for tenant, ids := range byTenant {
		due, err := s.due(ctx, tenant, openTurnsIn, []any{ids}, `published_at is null`, `state = 'ready'`)
		if err != nil {
			return all, err
		}
		all.add(due)
	}
	return all, nil
}

const openTurnsIn = `
	select turn_id from turns
	 where tenant_id = $1 and topic_id = any($2::text[]) and open`

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
		due, err := s.due(ctx, tenant, `select unnest($2::uuid[])`, []any{ids},
			`(published_at is null or published_at <= clock_timestamp() - `+strconv.FormatInt(unclaimed.Milliseconds(), 10)+` * interval '1 millisecond')`,
			`state in ('ready', 'dispatched')`)
		if err != nil {
			return all, err
		}
		all.add(due)
	}
	return all, nil
}

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

// due reads what is due of some turns: first the turns that have something
// to run or to continue, which most signals are not about, then of each table
// the rows of those, joined here.
func (s *Store) due(ctx context.Context, tenant model.TenantID, which string, args []any, run, continuation string) (Due, error) {
	d := duePicker{tenant: tenant, turns: map[model.TurnID]dueTurn{}, notes: map[model.TurnID][]model.Note{}}
	rows, err := s.hot.Query(ctx, selectTurnsToMove+` and turn_id = any(array(`+which+`))`, append([]any{tenant}, args...)...)
	if err == nil {
		err = d.scanTurns(rows)
	}
	if err != nil {
		return Due{}, unavailable(err)
	}
	b := &pgx.Batch{}
	if ids := d.runs; len(ids) > 0 {
		b.Queue(selectRunsToHint+` and `+run, tenant, ids).Query(d.scanRuns)
	}
	if ids := d.continuations; len(ids) > 0 {
		b.Queue(selectEditsToTell, tenant, ids).Query(d.scanNotes)
		b.Queue(selectContinuationsToDeliver+` and `+continuation, tenant, ids).Query(d.scanContinuations)
	}
	if b.Len() > 0 {
		err = s.hot.SendBatch(ctx, b).Close()
	}
	return d.due, unavailable(err)
}

const (
	selectTurnsToMove = `
	select turn_id::text, topic_id, message_id, version, sink_type, sink_target, accept_within_ms, traceparent,
	       open_calls > open_approvals + unknown_calls, state = 'continuing'
	  from turns
	 where tenant_id = $1 and (open_calls > open_approvals + unknown_calls or state = 'continuing')`
	selectRunsToHint = `
	select turn_id::text, call_id::text, tool_call_id, executor, fence, published
	  from calls
	 where tenant_id = $1 and turn_id = any($2::uuid[]) and run = 'queued' and not polled and not_before <= clock_timestamp()`
	selectEditsToTell = `
	select turn_id::text, tool, tool_call_id
	  from calls
	 where tenant_id = $1 and turn_id = any($2::uuid[]) and edited
	 order by part`
	selectContinuationsToDeliver = `
	select turn_id::text, generation, deliveries
	  from continuations
	 where tenant_id = $1 and turn_id = any($2::uuid[]) and next_at <= clock_timestamp()`
)

// duePicker joins what the statements found. What is held or polled never
// gets here: its rows say that nothing is owed.
type duePicker struct {
	tenant model.TenantID
	turns  map[model.TurnID]dueTurn
	notes  map[model.TurnID][]model.Note
	due    Due

	runs, continuations []string // the turns to look at for each
}

type dueTurn struct {
	topic       model.TopicID
	message     model.MessageID
	version     int64
	sink        model.Sink
	traceparent string
}

func (d *duePicker) scanTurns(rows pgx.Rows) error {
	for rows.Next() {
		var id model.TurnID
		var t dueTurn
		var target string
		var accept int64
		var runs, continues bool
		if err := rows.Scan(&id, &t.topic, &t.message, &t.version, &t.sink.Type, &target, &accept, &t.traceparent, &runs, &continues); err != nil {
			rows.Close()
			return err
		}
		t.sink = sinkOf(t.sink.Type, target, accept)
		d.turns[id] = t
		if runs {
			d.runs = append(d.runs, string(id))
		}
		if continues {
			d.continuations = append(d.continuations, string(id))
		}
	}
	return rows.Err()
}

func (d *duePicker) scanRuns(rows pgx.Rows) error {
	for rows.Next() {
		r := DueRun{Tenant: d.tenant}
		if err := rows.Scan(&r.Turn, &r.Call, &r.ToolCallID, &r.Executor, &r.Fence, &r.Published); err != nil {
			return err
		}
		t := d.turns[r.Turn]
		r.Topic, r.Message, r.Sink, r.Traceparent = t.topic, t.message, t.sink, t.traceparent
		d.due.Runs = append(d.due.Runs, r)
	}
	return rows.Err()
}

func (d *duePicker) scanNotes(rows pgx.Rows) error {
	var turn model.TurnID
	var tool, toolCallID string
	_, err := pgx.ForEachRow(rows, []any{&turn, &tool, &toolCallID}, func() error {
		d.notes[turn] = append(d.notes[turn], model.EditNote(tool, toolCallID))
		return nil
	})
	return err
}

func (d *duePicker) scanContinuations(rows pgx.Rows) error {
	for rows.Next() {
		c := DueContinuation{Tenant: d.tenant}
		if err := rows.Scan(&c.Turn, &c.Generation, &c.Deliveries); err != nil {
			return err
		}
		t := d.turns[c.Turn]
		c.Topic, c.Message, c.Version, c.Sink, c.Traceparent = t.topic, t.message, t.version, t.sink, t.traceparent
		c.Notes = d.notes[c.Turn]
		d.due.Continuations = append(d.due.Continuations, c)
	}
	return rows.Err()
}

func (d *Due) add(other Due) {
	d.Runs, d.Continuations = append(d.Runs, other.Runs...), append(d.Continuations, other.Continuations...)
}
