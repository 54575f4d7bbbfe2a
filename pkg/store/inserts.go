package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// inserts collects the new rows of a transaction, column by column.
type inserts struct {
	messages  messageColumns
	turns     turnColumnsNew
	calls     callColumnsNew
	approvals approvalColumnsNew
}

func (n *inserts) queue(b *pgx.Batch, tenant model.TenantID) {
	if m := &n.messages; len(m.ids) > 0 {
		insertMessages.queue(b, nil, tenant, m.topics, m.ids, m.positions, m.roles, m.parts, m.metadata, m.contents)
	}
	if t := &n.turns; len(t.ids) > 0 {
		insertTurns.queue(b, nil, tenant, t.ids, t.topics, t.messages, t.steps, t.continues, t.states, t.ended, t.streaming, t.approvals,
			t.calls, t.executions, t.requestedBy, t.sinkTypes, t.sinkTargets, t.accept, t.holdLeases, t.holdUntil,
			t.onLapse, t.liveFences, t.liveTokens, t.liveUntil, t.parts, t.contents, t.traceparents, t.reasons, t.replies)
	}
	if c := &n.calls; len(c.ids) > 0 {
		insertCalls.queue(b, nil, tenant, c.ids, c.turns, c.topics, c.messages, c.parts, c.toolCallIDs, c.tools, c.servers,
			c.definitions, c.effects, c.executors, c.maxAttempts, c.retentions, c.timeouts, c.dynamic, c.extras, c.states, c.outcomes,
			c.errors, c.allowedBy, c.inputs, c.digests, c.runs, c.queued, c.polled)
	}
	if a := &n.approvals; len(a.ids) > 0 {
		insertApprovals.queue(b, nil, tenant, a.ids, a.calls, a.turns, a.topics, a.states, a.requested, a.expires, a.rules, a.reasons,
			a.deciders, a.decided)
	}
}

type messageColumns struct {
	topics, ids, roles        []string
	positions                 []int64
	parts, metadata, contents [][]byte
}

var insertMessages = writesRows(`
	insert into messages (tenant_id, topic_id, message_id, position, role, parts, metadata, content, version)
	select $1, d.topic_id, d.message_id, d.position, d.role, d.parts, d.metadata, d.content, t.version
	  from (select unnest($2::text[]) as topic_id, unnest($3::text[]) as message_id, unnest($4::bigint[]) as position,
	               unnest($5::text[]) as role, unnest($6::bytea[]) as parts, unnest($7::bytea[]) as metadata,
	               unnest($8::bytea[]) as content) as d
	  join topics t on t.tenant_id = $1 and t.topic_id = d.topic_id and t.topic_id = any($2::text[])`)

// assistant adds an assistant message, whose parts are in its turns.
func (n *inserts) assistant(topic model.TopicID, id model.MessageID, position int64, content []byte) {
	n.messages.add(topic, id, position, "assistant", nil, nil, content)
}

func (m *messageColumns) add(topic model.TopicID, id model.MessageID, position int64, role string, parts, metadata, content []byte) {
	m.topics, m.ids, m.positions = append(m.topics, string(topic)), append(m.ids, string(id)), append(m.positions, position)
	m.roles, m.parts = append(m.roles, role), append(m.parts, parts)
	m.metadata, m.contents = append(m.metadata, metadata), append(m.contents, content)
}

type turnColumnsNew struct {
	ids, topics, messages, continues, states, ended, executions []string
	requestedBy, sinkTypes, sinkTargets, liveTokens             []string
	traceparents, reasons                                       []string
	onLapse                                                     []*string
	steps, approvals, calls                                     []int
	streaming, replies                                          []bool
	accept, liveFences                                          []int64
	holdLeases                                                  []*int64
	holdUntil, liveUntil                                        []*time.Time
	parts, contents                                             [][]byte
}

var insertTurns = writesRows(`
	insert into turns (tenant_id, turn_id, topic_id, message_id, step, continues, state, ended, streaming, open_approvals,
	                   open_calls, execution, requested_by, sink_type, sink_target, accept_within_ms, hold_lease_ms,
	                   hold_until, on_lapse, live_fence, live_token, live_until, parts, content, traceparent,
	                   end_reason, reply, version)
	select $1, d.turn_id, d.topic_id, d.message_id, d.step, nullif(d.continues, '')::uuid, d.state, d.ended, d.streaming,
	       d.open_approvals, d.open_calls, d.execution, d.requested_by, d.sink_type, d.sink_target, d.accept_within_ms,
	       d.hold_lease_ms, d.hold_until, d.on_lapse, d.live_fence, d.live_token, d.live_until, d.parts, d.content,
	       d.traceparent, d.end_reason, d.reply, t.version
	  from (select unnest($2::uuid[]) as turn_id, unnest($3::text[]) as topic_id, unnest($4::text[]) as message_id,
	               unnest($5::int[]) as step, unnest($6::text[]) as continues, unnest($7::text[]) as state,
	               unnest($8::text[]) as ended, unnest($9::boolean[]) as streaming, unnest($10::int[]) as open_approvals,
	               unnest($11::int[]) as open_calls, unnest($12::text[]) as execution,
	               unnest($13::text[]) as requested_by, unnest($14::text[]) as sink_type,
	               unnest($15::text[]) as sink_target, unnest($16::bigint[]) as accept_within_ms,
	               unnest($17::bigint[]) as hold_lease_ms, unnest($18::timestamptz[]) as hold_until,
	               unnest($19::text[]) as on_lapse, unnest($20::bigint[]) as live_fence,
	               unnest($21::text[]) as live_token, unnest($22::timestamptz[]) as live_until,
	               unnest($23::bytea[]) as parts, unnest($24::bytea[]) as content, unnest($25::text[]) as traceparent,
	               unnest($26::text[]) as end_reason, unnest($27::boolean[]) as reply) as d
	  join topics t on t.tenant_id = $1 and t.topic_id = d.topic_id and t.topic_id = any($3::text[])`)

func (n *inserts) turn(t *model.Turn, parts Parts, content []byte) {
	c := &n.turns
	c.ids, c.topics, c.messages = append(c.ids, string(t.ID)), append(c.topics, string(t.Topic)), append(c.messages, string(t.Message))
	c.steps, c.continues = append(c.steps, t.Step), append(c.continues, string(t.Continues))
	c.states, c.ended, c.streaming = append(c.states, string(t.State())), append(c.ended, string(t.Ended)), append(c.streaming, t.Streaming)
	c.approvals, c.calls = append(c.approvals, t.OpenApprovals), append(c.calls, t.OpenCalls)
	c.executions, c.requestedBy = append(c.executions, string(t.Execution)), append(c.requestedBy, t.RequestedBy)
	c.sinkTypes, c.sinkTargets = append(c.sinkTypes, string(t.Sink.Type)), append(c.sinkTargets, sinkTarget(t.Sink))
	c.accept = append(c.accept, t.Sink.AcceptWithin.Milliseconds())
	c.addHold(t.Hold)
	c.addLive(t.Live)
	c.parts, c.contents, c.traceparents = append(c.parts, parts.encode()), append(c.contents, content), append(c.traceparents, t.Traceparent)
	c.reasons, c.replies = append(c.reasons, t.EndReason), append(c.replies, t.Reply)
}

func (c *turnColumnsNew) addHold(h *model.Hold) {
	var lease *int64
	var until *time.Time
	var lapse *string
	if h != nil {
		ms, answer := h.Lease.Milliseconds(), string(h.OnLapse)
		lease, until, lapse = &ms, &h.Until, &answer
	}
	c.holdLeases, c.holdUntil, c.onLapse = append(c.holdLeases, lease), append(c.holdUntil, until), append(c.onLapse, lapse)
}

func (c *turnColumnsNew) addLive(l *model.Live) {
	var fence int64
	var token string
	var until *time.Time
	if l != nil {
		fence, token, until = l.Fence, l.Token, &l.LeaseUntil
	}
	c.liveFences, c.liveTokens, c.liveUntil = append(c.liveFences, fence), append(c.liveTokens, token), append(c.liveUntil, until)
}

type callColumnsNew struct {
	ids, turns, topics, messages, toolCallIDs, tools, servers []string
	effects, executors, states, outcomes, errors, allowedBy   []string
	runs                                                      []string
	parts, maxAttempts                                        []int
	retentions, timeouts                                      []int64
	dynamic                                                   []bool
	definitions, extras, inputs, digests                      [][]byte
	queued                                                    []*time.Time
	polled                                                    []bool
}

var insertCalls = writesRows(`
	insert into calls (tenant_id, call_id, turn_id, topic_id, message_id, part, tool_call_id, tool, server, definition, effect,
	                   executor, max_attempts, key_retention_ms, timeout_ms, dynamic, extra, state, outcome, error_text, allowed_by,
	                   input, digest, run, queued_at, polled, not_before)
	select $1, d.*, d.queued_at
	  from (select unnest($2::uuid[]) as call_id, unnest($3::uuid[]) as turn_id, unnest($4::text[]) as topic_id,
	               unnest($5::text[]) as message_id, unnest($6::int[]) as part, unnest($7::text[]) as tool_call_id,
	               unnest($8::text[]) as tool, unnest($9::text[]) as server, unnest($10::bytea[]) as definition,
	               unnest($11::text[]) as effect, unnest($12::text[]) as executor, unnest($13::int[]) as max_attempts,
	               unnest($14::bigint[]) as key_retention_ms, unnest($15::bigint[]) as timeout_ms,
	               unnest($16::boolean[]) as dynamic, unnest($17::bytea[]) as extra, unnest($18::text[]) as state,
	               unnest($19::text[]) as outcome, unnest($20::text[]) as error_text, unnest($21::text[]) as allowed_by,
	               unnest($22::bytea[]) as input, unnest($23::bytea[]) as digest, unnest($24::text[]) as run,
	               unnest($25::timestamptz[]) as queued_at, unnest($26::boolean[]) as polled) as d`)

type approvalColumnsNew struct {
	ids, calls, turns, topics, states, rules, reasons, deciders []string
	requested, expires                                          []time.Time
	decided                                                     []*time.Time
}

var insertApprovals = writesRows(`
	insert into approvals (tenant_id, approval_id, call_id, turn_id, topic_id, state, requested_at, expires_at, rule, reason,
	                       decided_by, decided_at)
	select $1, unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::uuid[]), unnest($5::text[]), unnest($6::text[]),
	       unnest($7::timestamptz[]), unnest($8::timestamptz[]), unnest($9::text[]::jsonb[]), unnest($10::text[]),
	       unnest($11::text[]), unnest($12::timestamptz[])`)

// addCalls adds the calls of a turn, which are in the order of news.
func (n *inserts) addCalls(t *model.Turn, calls []*model.Call, news []NewCall) {
	for i, c := range calls {
		n.calls.add(t, c, &news[i])
		if c.Approval != nil {
			n.approvals.add(t, c)
		}
	}
}

func (n *callColumnsNew) add(t *model.Turn, c *model.Call, from *NewCall) {
	n.ids, n.turns = append(n.ids, string(c.ID)), append(n.turns, string(t.ID))
	n.topics, n.messages = append(n.topics, string(t.Topic)), append(n.messages, string(t.Message))
	n.parts, n.toolCallIDs = append(n.parts, c.Part), append(n.toolCallIDs, c.ToolCallID)
	n.tools, n.servers, n.definitions = append(n.tools, c.Tool.Name), append(n.servers, c.Tool.Server), append(n.definitions, c.Tool.Definition)
	n.effects, n.executors = append(n.effects, string(c.Tool.Effect)), append(n.executors, string(c.Tool.Executor))
	n.maxAttempts, n.retentions = append(n.maxAttempts, c.Tool.MaxAttempts), append(n.retentions, c.Tool.KeyRetention.Milliseconds())
	n.timeouts = append(n.timeouts, c.Tool.Timeout.Milliseconds())
	n.dynamic, n.extras = append(n.dynamic, from.Dynamic), append(n.extras, from.Extra)
	n.states, n.outcomes = append(n.states, string(c.State)), append(n.outcomes, string(c.Outcome))
	n.errors, n.allowedBy = append(n.errors, c.ErrorText), append(n.allowedBy, c.AllowedBy)
	n.inputs, n.digests = append(n.inputs, from.Input), append(n.digests, c.Digest)
	n.runs, n.queued = append(n.runs, string(c.Run)), append(n.queued, nullable(c.QueuedAt))
	n.polled = append(n.polled, c.Tool.Executor == model.ExecutorCaller && (t.Sink.Type == model.SinkNone || t.Sink.Type == model.SinkModel))
}

func (n *approvalColumnsNew) add(t *model.Turn, c *model.Call) {
	a := c.Approval
	n.ids, n.calls = append(n.ids, string(a.ID)), append(n.calls, string(c.ID))
	n.turns, n.topics = append(n.turns, string(t.ID)), append(n.topics, string(t.Topic))
	n.states, n.rules = append(n.states, string(a.State)), append(n.rules, encodeRule(a))
	n.requested, n.expires = append(n.requested, a.RequestedAt), append(n.expires, a.ExpiresAt)
	n.reasons, n.deciders = append(n.reasons, a.Reason), append(n.deciders, a.DecidedBy)
	n.decided = append(n.decided, nullable(a.DecidedAt))
}
