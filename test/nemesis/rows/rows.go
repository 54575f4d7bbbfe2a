package rows

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Turn is a row of turns, with its continuation.
type Turn struct {
	Tenant, ID, Topic, Message  string
	State, Ended                string
	EndReason                   string
	Continues                   string
	Discarded, Streaming, Reply bool
	SinkType                    string
	Calls                       int
	Open                        int
	Version                     int64
	Continuation                string // its state; "" when there is none
	AcceptedBy                  string
	Generation, Deliveries      int
}

// Call is a row of calls, with its approval.
type Call struct {
	Tenant, ID, Turn, Topic string
	Tool, Effect, Executor  string
	Definition              []byte
	State, Run, Outcome     string
	ErrorText, AllowedBy    string
	Resolution              string // what a person said about it; "" when nobody did
	Input, Original         []byte
	Digest                  []byte
	Output                  []byte
	Fence                   int64
	MaxAttempts             int
	Published               int
	Approval, Verdict       string // its id and state; "" when nobody was asked
	DecidedBy, DecisionID   string
	DecidedAt               *time.Time
	Quorum                  int
}

// Decision is a row of decisions.
type Decision struct {
	Tenant, ID, Approval, Call string
	Approved                   bool
	By                         string
	Digest                     []byte
	Edited                     bool
	At                         time.Time
}

// Attempt is a row of attempts.
type Attempt struct {
	Tenant, Call, Worker, Outcome, Detail string
	Token                                 string
	Fence                                 int64
	StartedAt                             time.Time
	FinishedAt                            *time.Time
}

// Topic is a row of topics.
type Topic struct {
	Tenant, ID string
	Version    int64
	Owed       bool
	Last       string
	Open       int
}

// Message is a row of messages.
type Message struct {
	Tenant, Topic, ID, Role string
	Position                int64
	Dropped                 bool
}

// All is everything that the checks look at, of one moment.
type All struct {
	Turns     []Turn
	Calls     []Call
	Decisions []Decision
	Attempts  []Attempt
	Topics    []Topic
	Messages  []Message
}

// Read reads everything in one snapshot.
func Read(ctx context.Context, url string) (all All, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return all, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		for _, read := range []func() error{
			func() (err error) { all.Turns, err = collect[Turn](ctx, tx, selectTurns); return err },
			func() (err error) { all.Calls, err = collect[Call](ctx, tx, selectCalls); return err },
			func() (err error) { all.Decisions, err = collect[Decision](ctx, tx, selectDecisions); return err },
			func() (err error) { all.Attempts, err = collect[Attempt](ctx, tx, selectAttempts); return err },
			func() (err error) { all.Topics, err = collect[Topic](ctx, tx, selectTopics); return err },
			func() (err error) { all.Messages, err = collect[Message](ctx, tx, selectMessages); return err },
		} {
			if err := read(); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func collect[T any](ctx context.Context, tx pgx.Tx, query string) ([]T, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// The columns are in the order of the fields.
const (
	selectTurns = `
	select t.tenant_id, t.turn_id::text, t.topic_id, t.message_id, t.state, t.ended, t.end_reason, coalesce(t.continues::text, ''),
	       t.discarded, t.streaming, t.reply, t.sink_type, (select count(*) from calls c where c.tenant_id = t.tenant_id and c.turn_id = t.turn_id),
	       t.open_calls, t.version, coalesce(k.state, ''), coalesce(k.accepted_by::text, ''), coalesce(k.generation, 0),
	       coalesce(k.deliveries, 0)
	  from turns t
	  left join continuations k on k.tenant_id = t.tenant_id and k.turn_id = t.turn_id
	 order by t.created_at, t.turn_id`
	selectCalls = `
	select c.tenant_id, c.call_id::text, c.turn_id::text, c.topic_id, c.tool, c.effect, c.executor, c.definition, c.state, c.run,
	       c.outcome, c.error_text, c.allowed_by, coalesce(c.resolution, ''), c.input, c.original_input, c.digest, c.output, c.fence, c.max_attempts, c.published,
	       coalesce(a.approval_id::text, ''), coalesce(a.state, ''), coalesce(a.decided_by, ''), coalesce(a.decision_id, ''),
	       a.decided_at, coalesce((a.rule->>'quorum')::int, 0)
	  from calls c
	  left join approvals a on a.tenant_id = c.tenant_id and a.call_id = c.call_id
	 order by c.created_at, c.call_id`
	selectDecisions = `
	select tenant_id, decision_id, approval_id::text, call_id::text, approved, decided_by, digest, edited, decided_at
	  from decisions
	 order by decided_at, decision_id`
	selectAttempts = `
	select tenant_id, call_id::text, worker, outcome, detail, claim_token, fence, started_at, finished_at
	  from attempts
	 order by started_at, call_id, fence`
	selectTopics = `
	select tenant_id, topic_id, version, owed, last, streaming + awaiting + attention + executing + continuing + failed
	  from topics
	 order by tenant_id, topic_id`
	selectMessages = `
	select tenant_id, topic_id, message_id, role, position, dropped
	  from messages
	 order by tenant_id, topic_id, position`
)
