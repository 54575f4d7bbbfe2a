package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/countersign/countersign/pkg/model"
)

// The rows of the four tables that a turn is made of, and how each is read.
// The columns carry no table's name, so that they can be selected from any
// statement in which they are unambiguous.

const turnColumns = `turn_id::text, topic_id, message_id, step, coalesce(continues::text, ''), ended, end_reason, discarded,
	streaming, reply, queued, open_approvals, open_calls, unknown_calls, execution, requested_by, sink_type, sink_target, accept_within_ms,
	hold_lease_ms, hold_until, on_lapse, live_fence, live_token, live_until, traceparent`

// scanTurn reads turnColumns, and after them what more a query selects.
func scanTurn(row pgx.Row, more ...any) (*model.Turn, error) {
	var (
		t                    model.Turn
		live                 model.Live
		accept               int64
		holdLease            *int64
		holdUntil, liveUntil *time.Time
		onLapse              *string
		target               string
	)
	err := row.Scan(append([]any{&t.ID, &t.Topic, &t.Message, &t.Step, &t.Continues, &t.Ended, &t.EndReason, &t.Discarded,
		&t.Streaming, &t.Reply, &t.Queued, &t.OpenApprovals, &t.OpenCalls, &t.UnknownCalls, &t.Execution, &t.RequestedBy, &t.Sink.Type, &target, &accept,
		&holdLease, &holdUntil, &onLapse, &live.Fence, &live.Token, &liveUntil, &t.Traceparent}, more...)...)
	if err != nil {
		return nil, err
	}
	t.Sink = sinkOf(t.Sink.Type, target, accept)
	if holdUntil != nil {
		t.Hold = &model.Hold{Lease: milliseconds(*holdLease), Until: *holdUntil, OnLapse: model.OnLapse(*onLapse)}
	}
	if liveUntil != nil {
		live.LeaseUntil = *liveUntil
		t.Live = &live
	}
	return &t, nil
}

const topicColumns = `topic_id, version, streaming, awaiting, attention, executing, continuing, failed, last, messages, unknowns`

func scanTopic(row pgx.Row) (t model.Topic, err error) {
	c := &t.Counters
	err = row.Scan(&t.ID, &t.Version, &c.Streaming, &c.Awaiting, &c.Attention, &c.Executing, &c.Continuing, &c.Failed,
		&t.Last, &t.Messages, &t.Unknowns)
	return t, err
}

// continuationRow is a row of continuations, or none: then its state is "".
type continuationRow struct{ model.Continuation }

func (k *continuationRow) fields() []any {
	return []any{(*zeronull.Text)(&k.State), &k.Generation, (*zeronull.Timestamptz)(&k.ReadyAt), (*zeronull.Text)(&k.AcceptedBy)}
}

const callColumns = `call_id::text, turn_id::text, part, tool_call_id, tool, server, definition, effect, executor, max_attempts,
	key_retention_ms, state, outcome, error_text, allowed_by, digest, edited, run, fence, claim_token, worker, lease_until,
	queued_at, not_before, first_started_at, result_digest, uncertain, timeout_ms, resolution`

// scanCall reads callColumns, and after them what more a query selects. Of a
// resolution it reads the outcome alone; scanResolutions reads the rest.
func scanCall(row pgx.Row, more ...any) (*model.Call, model.TurnID, error) {
	var (
		c                                 model.Call
		turn                              model.TurnID
		retention, timeout                int64
		resolution                        model.ResolutionOutcome
		lease, queued, notBefore, started *time.Time
	)
	err := row.Scan(append([]any{&c.ID, &turn, &c.Part, &c.ToolCallID, &c.Tool.Name, &c.Tool.Server, &c.Tool.Definition,
		&c.Tool.Effect, &c.Tool.Executor, &c.Tool.MaxAttempts, &retention, &c.State, &c.Outcome, &c.ErrorText, &c.AllowedBy,
		&c.Digest, &c.Edited, &c.Run, &c.Fence, &c.ClaimToken, &c.Worker, &lease, &queued, &notBefore, &started,
		&c.ResultDigest, &c.Uncertain, &timeout, &resolution}, more...)...)
	if err != nil {
		return nil, "", err
	}
	c.Tool.KeyRetention, c.Tool.Timeout = milliseconds(retention), milliseconds(timeout)
	if resolution != "" {
		c.Resolution = &model.Resolved{Outcome: resolution}
	}
	c.LeaseUntil, c.QueuedAt, c.NotBefore, c.FirstStartedAt = instant(lease), instant(queued), instant(notBefore), instant(started)
	return &c, turn, nil
}

const (
	approvalColumns = `approval_id::text, state, ` + approvalAnswer
	approvalAnswer  = `requested_at, expires_at, rule, reason, decided_by, decided_at, decision_id, channel`
)

// approvalRow is a row of approvals, or none: then its id is "".
type approvalRow struct {
	model.Approval
	rule []byte
}

func (a *approvalRow) fields() []any {
	return []any{(*zeronull.Text)(&a.ID), (*zeronull.Text)(&a.State), (*zeronull.Timestamptz)(&a.RequestedAt),
		(*zeronull.Timestamptz)(&a.ExpiresAt), &a.rule, (*zeronull.Text)(&a.Reason), (*zeronull.Text)(&a.DecidedBy),
		(*zeronull.Timestamptz)(&a.DecidedAt), (*zeronull.Text)(&a.DecisionID), (*zeronull.Text)(&a.Channel)}
}

// approval gives what was read, or nil.
func (a *approvalRow) approval() (*model.Approval, error) {
	if a.ID == "" {
		return nil, nil
	}
	return &a.Approval, decodeRule(a.rule, &a.Approval)
}

// attach gives calls the approvals that a statement found.
func attach(rows pgx.Rows, asked map[model.CallID]*model.Call) error {
	for rows.Next() {
		var call model.CallID
		var row approvalRow
		if err := rows.Scan(append([]any{&call}, row.fields()...)...); err != nil {
			return err
		}
		a, err := row.approval()
		if err != nil {
			return err
		}
		if c := asked[call]; c != nil {
			c.Approval = a
		}
	}
	return rows.Err()
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

func sinkOf(kind model.SinkType, target string, acceptMS int64) model.Sink {
	s := model.Sink{Type: kind, AcceptWithin: milliseconds(acceptMS)}
	switch kind {
	case model.SinkWebhook:
		s.URL = target
	case model.SinkJetStream:
		s.Name = target
	case model.SinkModel:
		_ = json.Unmarshal([]byte(target), &s.Ask) // what sinkTarget wrote
	}
	return s
}

func sinkTarget(s model.Sink) string {
	switch s.Type {
	case model.SinkWebhook:
		return s.URL
	case model.SinkModel:
		ask, _ := json.Marshal(s.Ask)
		return string(ask)
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
