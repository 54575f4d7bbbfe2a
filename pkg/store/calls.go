package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// CallView is a call with where it belongs, and its attempts.
type CallView struct {
	*model.Call
	Turn     model.TurnID
	Topic    model.TopicID
	Message  model.MessageID
	Output   []byte
	Attempts []Attempt
	Earlier  *Earlier // the call that it may repeat, or nil
}

// Earlier is a call that another may repeat, as it stands now.
type Earlier struct {
	Call       model.CallID
	State      model.CallState
	Run        model.RunState
	Resolution model.ResolutionOutcome // "" where no person resolved it
}

// Attempt is one try of a run.
type Attempt struct {
	Fence      int64
	Worker     string
	StartedAt  time.Time
	FinishedAt time.Time // zero while it runs
	Outcome    string    // "", or a result's kind, or lease-lost, or refused
	Detail     string
}

// CallFilter selects calls; empty fields select all.
type CallFilter struct {
	State    model.CallState
	Run      model.RunState
	Executor model.Executor
	Topic    model.TopicID
	Topics   []model.TopicID // only these; nil is every one
	After    model.CallID
	Limit    int
}

// Call reads one call with its attempts, as they were at one moment. Errors:
// [model.ErrNotFound].
func (s *Store) Call(ctx context.Context, tenant model.TenantID, id model.CallID) (call CallView, err error) {
	err = s.atOneMoment(ctx, func(q *moment) error {
		var attempts []Attempt
		calls, err := q.calls(ctx, func(b *pgx.Batch) {
			b.Queue(selectAttempts, tenant, string(id)).Query(func(rows pgx.Rows) (err error) {
				attempts, err = pgx.CollectRows(rows, scanAttempt)
				return err
			})
		}, selectCall, tenant, string(id))
		if err != nil {
			return err
		}
		if len(calls) == 0 {
			return model.ErrNotFound
		}
		call = calls[0]
		call.Attempts = attempts
		return nil
	})
	return call, err
}

func scanAttempt(row pgx.CollectableRow) (a Attempt, err error) {
	var finished *time.Time
	err = row.Scan(&a.Fence, &a.Worker, &a.StartedAt, &finished, &a.Outcome, &a.Detail)
	a.FinishedAt = instant(finished)
	return a, err
}

const selectCall = `
	select ` + callColumns + `, topic_id, message_id, coalesce(duplicate_of::text, ''), output
	  from calls
	 where tenant_id = $1 and call_id = ($2::text)::uuid`

const selectAttempts = `
	select fence, worker, started_at, finished_at, outcome, detail
	  from attempts
	 where tenant_id = $1 and call_id = ($2::text)::uuid
	 order by fence`

// Calls lists calls, oldest first, without their attempts and outputs.
func (s *Store) Calls(ctx context.Context, tenant model.TenantID, f CallFilter) ([]CallView, error) {
	query := selectCalls + orderCalls
	if f.Run == model.RunUnknown {
		// The few that need a person have an index of their own.
		query = selectCalls + ` and run = 'outcome-unknown'` + orderCalls
	}
	var out []CallView
	err := s.atOneMoment(ctx, func(q *moment) (err error) {
		out, err = q.calls(ctx, nil, query,
			tenant, string(f.State), string(f.Run), string(f.Executor), string(f.Topic), string(f.After), f.Limit, f.Topics)
		return err
	})
	return out, err
}

const selectCalls = `
	select ` + callColumns + `, topic_id, message_id, coalesce(duplicate_of::text, ''), null::bytea
	  from calls
	 where tenant_id = $1
	   and ($2 = '' or state = $2)
	   and ($3 = '' or run = $3)
	   and ($4 = '' or executor = $4)
	   and ($5 = '' or topic_id = $5)
	   and ($6 = '' or call_id > nullif($6, '')::uuid)
	   and ($8::text[] is null or topic_id = any($8))`

const orderCalls = `
	 order by calls.call_id
	 limit $7`

// calls reads calls, and with what more is queued whatever belongs to them.
// Nothing is read after that.
func (q *moment) calls(ctx context.Context, more func(*pgx.Batch), query string, args ...any) (out []CallView, err error) {
	err = q.trip(ctx, func(b *pgx.Batch) {
		b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, scanCallView)
			return err
		})
	})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	return out, q.last(ctx, func(b *pgx.Batch) {
		queueUnknowns(b, args[0], out)
		queueApprovals(b, args[0], out)
		if more != nil {
			more(b)
		}
	})
}

func scanCallView(row pgx.CollectableRow) (c CallView, err error) {
	var earlier model.CallID
	c.Call, c.Turn, err = scanCall(row, &c.Topic, &c.Message, &earlier, &c.Output)
	if earlier != "" {
		c.Earlier = &Earlier{Call: earlier}
	}
	return c, err
}

// queueApprovals reads the approvals of calls, of which there may be none.
func queueApprovals(b *pgx.Batch, tenant any, calls []CallView) {
	turns, ids, byID := make([]string, len(calls)), make([]string, len(calls)), map[model.CallID]*model.Call{}
	for i, c := range calls {
		turns[i], ids[i], byID[c.ID] = string(c.Turn), string(c.ID), c.Call
	}
	b.Queue(selectApprovalsOfCalls, tenant, turns, ids).Query(func(rows pgx.Rows) error { return attach(rows, byID) })
}

const selectApprovalsOfCalls = `
	select call_id::text, ` + approvalColumns + `
	  from approvals
	 where tenant_id = $1 and turn_id = any($2::uuid[]) and call_id = any($3::uuid[])`

// CallInput reads the exact bytes of a call's input. Errors:
// [model.ErrNotFound].
func (s *Store) CallInput(ctx context.Context, tenant model.TenantID, id model.CallID) ([]byte, error) {
	var input []byte
	err := s.pool.QueryRow(ctx, `select input from calls where tenant_id = $1 and call_id = ($2::text)::uuid`,
		tenant, string(id)).Scan(&input)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, model.ErrNotFound
	}
	return input, unavailable(err)
}

// QueuedRun is a run that any worker may claim now.
type QueuedRun struct {
	Tenant      model.TenantID
	Call        model.CallID
	Fence       int64
	Traceparent string
}

// QueuedRuns finds runs that are queued since a while, for workers with free
// slots: what runs with NATS off.
func (s *Store) QueuedRuns(ctx context.Context, since time.Duration, limit int) ([]QueuedRun, error) {
	rows, err := s.pool.Query(ctx, selectQueuedRuns, since.Milliseconds(), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r QueuedRun, err error) {
		err = row.Scan(&r.Tenant, &r.Call, &r.Fence, &r.Traceparent)
		return r, err
	})
	return out, unavailable(err)
}

const selectQueuedRuns = `
	select c.tenant_id, c.call_id::text, c.fence, t.traceparent
	  from calls c
	  join turns t using (tenant_id, turn_id)
	 where c.run = 'queued' and not c.polled and c.executor = 'worker' and c.not_before <= clock_timestamp()
	   and c.queued_at <= clock_timestamp() - $1 * interval '1 millisecond'
	 order by c.queued_at
	 limit $2`

// ContinuationView is a continuation as it is listed.
type ContinuationView struct {
	Turn        model.TurnID
	Topic       model.TopicID
	Message     model.MessageID
	Version     int64
	State       model.ContinuationState
	Generation  int
	Sink        model.Sink
	Deliveries  int
	ReadyAt     time.Time
	NextAt      time.Time // zero while nothing is to be delivered: held, or polled
	DeliveredAt time.Time
	LastError   string
	AcceptedBy  model.TurnID
}

// Continuations lists continuations, oldest first.
func (s *Store) Continuations(
	ctx context.Context, tenant model.TenantID, state model.ContinuationState, topic model.TopicID, after model.TurnID, limit int,
) ([]ContinuationView, error) {
	query := selectContinuations + orderContinuations
	if state == model.ContinuationReady || state == model.ContinuationDispatched || state == model.ContinuationFailed {
		// The few that are open have an index of their own.
		query = selectContinuations + ` and k.state in ('ready', 'dispatched', 'failed')` + orderContinuations
	}
	rows, err := s.pool.Query(ctx, query, tenant, string(state), string(topic), string(after), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, scanContinuationView)
	return out, unavailable(err)
}

const selectContinuations = `
	select k.turn_id::text, k.topic_id, t.message_id, p.version, k.state, k.generation, t.sink_type, t.sink_target,
	       t.accept_within_ms, k.deliveries, k.ready_at, nullif(k.next_at, 'infinity'), k.delivered_at, k.last_error,
	       coalesce(k.accepted_by::text, '')
	  from continuations k
	  join turns t using (tenant_id, turn_id)
	  join topics p on p.tenant_id = k.tenant_id and p.topic_id = k.topic_id
	 where k.tenant_id = $1
	   and ($2 = '' or k.state = $2 and (k.state <> 'ready' or not t.queued))
	   and ($3 = '' or k.topic_id = $3)
	   and ($4 = '' or k.turn_id > nullif($4, '')::uuid)`

const orderContinuations = `
	 order by k.turn_id
	 limit $5`

func scanContinuationView(row pgx.CollectableRow) (c ContinuationView, err error) {
	var target string
	var accept int64
	var next, delivered *time.Time
	err = row.Scan(&c.Turn, &c.Topic, &c.Message, &c.Version, &c.State, &c.Generation, &c.Sink.Type, &target, &accept,
		&c.Deliveries, &c.ReadyAt, &next, &delivered, &c.LastError, &c.AcceptedBy)
	c.Sink, c.NextAt, c.DeliveredAt = sinkOf(c.Sink.Type, target, accept), instant(next), instant(delivered)
	return c, err
}
