package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

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
	topics map[model.TopicID]*model.Topic
	ended  map[model.TopicID]model.TopicStatus // of the turn that ended last in this transaction
	seen   map[model.TopicID]*model.Topic      // topics as they were read, not locked; for answers alone

	inserts *inserts // of a transaction that makes turns or calls; else nil
}

func newUnit(tenant model.TenantID) *unit {
	return &unit{
		tenant: tenant,
		turns:  map[model.TurnID]*model.Turn{},
		before: map[model.TurnID]model.TurnStanding{},
		fresh:  map[model.TurnID]bool{},
		topics: map[model.TopicID]*model.Topic{},
		ended:  map[model.TopicID]model.TopicStatus{},
		seen:   map[model.TopicID]*model.Topic{},
	}
}

const turnColumns = `
       t.turn_id::text, t.topic_id, t.message_id, t.step, coalesce(t.continues::text, ''),
       t.ended, t.end_reason, t.discarded, t.streaming, t.open_approvals, t.open_calls, t.unknown_calls,
       t.execution, t.requested_by, t.sink_type, t.sink_target, t.accept_within_ms,
       t.hold_lease_ms, t.hold_until, t.on_lapse, t.live_fence, t.live_token, t.live_until, t.traceparent,
       k.state, k.generation, k.ready_at, coalesce(k.accepted_by::text, '')`

const callColumns = `
       c.call_id::text, c.turn_id::text, c.part, c.tool_call_id, c.tool, c.server, c.definition, c.effect,
       c.executor, c.max_attempts, c.key_retention_ms, c.state, c.outcome, c.error_text, c.allowed_by, c.digest,
       c.edited, c.run, c.fence, c.claim_token, c.worker, c.lease_until, c.queued_at, c.not_before,
       c.first_started_at, c.result_digest, c.uncertain,
       a.approval_id::text, a.state, a.requested_at, a.expires_at, a.rule, a.reason, a.decided_by, a.decided_at,
       a.decision_id, a.channel`

// load locks the turns that a subselect names and reads what belongs to them.
// which is a query of turn ids; $1 in it is the tenant.
//
// Here and in every hot statement the keys stand as = any(array) beside each
// join, though the join says the same: the array is evaluated first and goes
// into the index condition, so that the plan is right without statistics,
// on tables that were empty a minute ago, and for a tenant that owns them all.
func (u *unit) load(b *pgx.Batch, which string, args ...any) {
	args = append([]any{u.tenant}, args...)
	b.Queue(`
		select `+turnColumns+`
		  from turns t
		  left join continuations k on k.tenant_id = $1 and k.turn_id = t.turn_id and k.turn_id = any(array(`+which+`))
		 where t.tenant_id = $1 and t.turn_id = any(array(`+which+`))
		 order by t.turn_id
		   for no key update of t`, args...).Query(u.scanTurns)
	b.Queue(`
		select `+callColumns+`
		  from calls c
		  left join approvals a on a.tenant_id = $1 and a.call_id = c.call_id and a.turn_id = any(array(`+which+`))
		 where c.tenant_id = $1 and c.turn_id = any(array(`+which+`))
		 order by c.call_id`, args...).Query(u.scanCalls)
}

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
		t.Tenant = u.tenant
		u.turns[t.ID] = t
		u.before[t.ID] = t.Standing()
	}
	return rows.Err()
}

func scanTurn(row pgx.Row) (*model.Turn, error) { return scanTurnWith(row) }

// scanTurnWith reads turnColumns, and after them what more a query selects.
func scanTurnWith(row pgx.Row, more ...any) (*model.Turn, error) {
	var (
		t                        model.Turn
		live                     model.Live
		accept                   int64
		holdLease                *int64
		holdUntil, liveUntil     *time.Time
		onLapse, state, accepted *string
		sinkTarget               string
		generation               *int
		readyAt                  *time.Time
	)
	err := row.Scan(append([]any{&t.ID, &t.Topic, &t.Message, &t.Step, &t.Continues,
		&t.Ended, &t.EndReason, &t.Discarded, &t.Streaming, &t.OpenApprovals, &t.OpenCalls, &t.UnknownCalls,
		&t.Execution, &t.RequestedBy, &t.Sink.Type, &sinkTarget, &accept,
		&holdLease, &holdUntil, &onLapse, &live.Fence, &live.Token, &liveUntil, &t.Traceparent,
		&state, &generation, &readyAt, &accepted}, more...)...)
	if err != nil {
		return nil, err
	}
	t.Sink = sinkOf(t.Sink.Type, sinkTarget, accept)
	if holdUntil != nil {
		t.Hold = &model.Hold{Lease: milliseconds(*holdLease), Until: *holdUntil, OnLapse: model.OnLapse(*onLapse)}
	}
	if liveUntil != nil {
		live.LeaseUntil = *liveUntil
		t.Live = &live
	}
	if state != nil {
		t.Continuation = &model.Continuation{
			State: model.ContinuationState(*state), Generation: *generation, ReadyAt: *readyAt, AcceptedBy: model.TurnID(*accepted),
		}
	}
	return &t, nil
}

func (u *unit) scanCalls(rows pgx.Rows) error {
	for rows.Next() {
		c, turn, err := scanCall(rows)
		if err != nil {
			return err
		}
		if t := u.turns[turn]; t != nil {
			t.Calls = append(t.Calls, c)
		}
	}
	return rows.Err()
}

func scanCall(row pgx.Row) (*model.Call, model.TurnID, error) { return scanCallWith(row) }

// scanCallWith reads callColumns, and after them what more a query selects.
func scanCallWith(row pgx.Row, more ...any) (*model.Call, model.TurnID, error) {
	var (
		c                                                 model.Call
		turn                                              model.TurnID
		retention                                         int64
		lease, queued, notBefore, started                 *time.Time
		approval, state, reason, decidedBy, decision, via *string
		requested, expires, decided                       *time.Time
		rule                                              []byte
	)
	err := row.Scan(append([]any{&c.ID, &turn, &c.Part, &c.ToolCallID, &c.Tool.Name, &c.Tool.Server, &c.Tool.Definition, &c.Tool.Effect,
		&c.Tool.Executor, &c.Tool.MaxAttempts, &retention, &c.State, &c.Outcome, &c.ErrorText, &c.AllowedBy, &c.Digest,
		&c.Edited, &c.Run, &c.Fence, &c.ClaimToken, &c.Worker, &lease, &queued, &notBefore,
		&started, &c.ResultDigest, &c.Uncertain,
		&approval, &state, &requested, &expires, &rule, &reason, &decidedBy, &decided, &decision, &via}, more...)...)
	if err != nil {
		return nil, "", err
	}
	c.Tool.KeyRetention = milliseconds(retention)
	c.LeaseUntil, c.QueuedAt, c.NotBefore, c.FirstStartedAt = instant(lease), instant(queued), instant(notBefore), instant(started)
	if approval != nil {
		c.Approval = &model.Approval{
			ID: model.ApprovalID(*approval), State: model.ApprovalState(*state), RequestedAt: *requested, ExpiresAt: *expires,
			Reason: *reason, DecidedBy: *decidedBy, DecidedAt: instant(decided), DecisionID: *decision, Channel: *via,
		}
		if err := decodeRule(rule, c.Approval); err != nil {
			return nil, "", err
		}
	}
	return &c, turn, nil
}

// approvalRule is how a requirement stands in the column rule.
type approvalRule struct {
	Restricted bool     `json:"restricted,omitempty"`
	Approvers  []string `json:"approvers,omitempty"`
	Quorum     int      `json:"quorum"`
	FourEyes   bool     `json:"fourEyes,omitempty"`
	Policies   []string `json:"policies,omitempty"`
}

func encodeRule(a *model.Approval) string {
	out, _ := json.Marshal(approvalRule{a.Rule.Restricted, a.Rule.Approvers, a.Rule.Quorum, a.Rule.FourEyes, a.Policies})
	return string(out)
}

func decodeRule(raw []byte, a *model.Approval) error {
	var r approvalRule
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("approval %s: its rule cannot be read: %w", a.ID, err)
	}
	a.Rule = model.Requirement{Restricted: r.Restricted, Approvers: r.Approvers, Quorum: r.Quorum, FourEyes: r.FourEyes}
	a.Policies = r.Policies
	return nil
}

// sorted gives the unit's turns by id, which is the order of writing.
func (u *unit) sorted() []*model.Turn {
	out := make([]*model.Turn, 0, len(u.turns))
	for _, t := range u.turns {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *model.Turn) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return out
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

func sinkOf(kind model.SinkType, target string, acceptMS int64) model.Sink {
	s := model.Sink{Type: kind, AcceptWithin: milliseconds(acceptMS)}
	switch kind {
	case model.SinkWebhook:
		s.URL = target
	case model.SinkJetStream:
		s.Name = target
	}
	return s
}

func sinkTarget(s model.Sink) string {
	if s.Type == model.SinkWebhook {
		return s.URL
	}
	return s.Name
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// nullable is the inverse of instant: the zero time is null.
func nullable(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
