package store

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// save queues everything that the rules changed in the unit: topics first,
// whose new versions the turns take over, then new rows, then turns, calls,
// approvals, continuations, and the rows that only grow.
//
// The rows of a statement are arrays, a column each, that are unnested side by
// side where they are selected; unnest with several arrays would keep each in
// a buffer of its own first, which took longer than the writing.
//
// touch tells whether the topics are changed at all: a claim or a renewed
// lease shows nowhere, and leaves them alone.
func (u *unit) save(b *pgx.Batch, touch bool) {
	var changed []*model.Turn
	for _, t := range u.sorted() {
		if t.Changed {
			changed = append(changed, t)
		}
	}
	if touch {
		u.saveTopics(b, changed)
	}
	if u.inserts != nil {
		u.inserts.queue(b, u.tenant)
		u.saveDuplicates(b)
	}
	existing := slices.DeleteFunc(slices.Clone(changed), func(t *model.Turn) bool { return u.fresh[t.ID] })
	if touch {
		u.saveReleased(b, existing)
		u.saveTurns(b, existing)
	}
	u.saveCalls(b, existing)
	u.saveUnknowns(b, existing)
	u.saveResolutions(b, existing)
	u.saveApprovals(b, existing)
	u.saveContinuations(b, changed)
	u.saveRecords(b)
}

// saveChanged is save for a transaction that shows in its topics.
func (u *unit) saveChanged(b *pgx.Batch) { u.save(b, true) }

func (u *unit) saveTopics(b *pgx.Batch, changed []*model.Turn) {
	var d topicDeltas
	for _, t := range changed {
		if before, known := u.before[t.ID]; known {
			d.add(t.Topic, before, -1)
		}
		now := t.Standing()
		d.add(t.Topic, now, 1)
		if now.State.Ended() && !u.before[t.ID].State.Ended() {
			u.ended[t.Topic] = model.TopicStatus(now.State)
		}
	}
	for topic := range u.topics { // topics that change without a turn: a user's message
		d.at(topic)
	}
	if len(d.ids) == 0 {
		return
	}
	n, held := len(d.ids), 0
	last, messages := make([]string, n), make([]int64, n)
	for i, id := range d.ids {
		last[i] = string(u.ended[model.TopicID(id)])
		if topic := u.topics[model.TopicID(id)]; topic != nil {
			messages[i] = topic.Messages
			held++
		}
	}
	if n > 1 && held < n {
		b.Queue(lockTopics, u.tenant, d.ids)
	}
	updateTopics.queue(b, u.scanTopics, u.tenant, d.ids, d.streaming, d.awaiting, d.attention, d.executing, d.continuing, d.failed,
		last, messages)
}

const lockTopics = `
	select from topics
	 where tenant_id = $1 and topic_id = any($2::text[])
	 order by topic_id
	   for no key update`

var updateTopics = writesRows(`
	update topics t
	   set version = t.version + 1,
	       streaming = t.streaming + d.streaming,
	       awaiting = t.awaiting + d.awaiting,
	       attention = t.attention + d.attention,
	       executing = t.executing + d.executing,
	       continuing = t.continuing + d.continuing,
	       failed = t.failed + d.failed,
	       last = case when d.last = '' then t.last else d.last end,
	       messages = greatest(t.messages, d.messages),
	       owed = true,
	       updated_at = clock_timestamp()
	  from (select unnest($2::text[]) as topic_id, unnest($3::int[]) as streaming, unnest($4::int[]) as awaiting,
	               unnest($5::int[]) as attention, unnest($6::int[]) as executing, unnest($7::int[]) as continuing,
	               unnest($8::int[]) as failed, unnest($9::text[]) as last, unnest($10::bigint[]) as messages) as d
	 where t.tenant_id = $1 and t.topic_id = d.topic_id and t.topic_id = any($2::text[])
	returning t.topic_id, t.version, t.streaming, t.awaiting, t.attention, t.executing, t.continuing, t.failed, t.last, t.messages,
	          t.unknowns`)

func (u *unit) scanTopics(rows pgx.Rows) error {
	for rows.Next() {
		t, err := scanTopic(rows)
		if err != nil {
			return err
		}
		t.Tenant = u.tenant
		u.topics[t.ID] = &t
	}
	return rows.Err()
}

func (u *unit) scanTopicsRead(rows pgx.Rows) error {
	for rows.Next() {
		t, err := scanTopic(rows)
		if err != nil {
			return err
		}
		t.Tenant = u.tenant
		u.seen[t.ID] = &t
	}
	return rows.Err()
}

// changes lists the topics that the transaction gave a new version.
func (u *unit) changes() []Change {
	out := make([]Change, 0, len(u.topics))
	for id, t := range u.topics {
		out = append(out, Change{Tenant: u.tenant, Topic: id, Version: t.Version})
	}
	return out
}

// topicDeltas collects by how much each counter of each topic changes.
type topicDeltas struct {
	ids                                                           []string
	streaming, awaiting, attention, executing, continuing, failed []int
}

func (d *topicDeltas) at(topic model.TopicID) int {
	if i := slices.Index(d.ids, string(topic)); i >= 0 {
		return i
	}
	d.ids = append(d.ids, string(topic))
	for _, counter := range []*[]int{&d.streaming, &d.awaiting, &d.attention, &d.executing, &d.continuing, &d.failed} {
		*counter = append(*counter, 0)
	}
	return len(d.ids) - 1
}

func (d *topicDeltas) add(topic model.TopicID, standing model.TurnStanding, n int) {
	i := d.at(topic)
	var c model.TopicCounters
	c.Add(standing, n)
	d.streaming[i] += c.Streaming
	d.awaiting[i] += c.Awaiting
	d.attention[i] += c.Attention
	d.executing[i] += c.Executing
	d.continuing[i] += c.Continuing
	d.failed[i] += c.Failed
}

func (u *unit) saveTurns(b *pgx.Batch, turns []*model.Turn) {
	if len(turns) == 0 {
		return
	}
	var c turnRows
	for _, t := range turns {
		c.add(t)
	}
	updateTurns.queue(b, nil, u.tenant, c.ids, c.states, c.ended, c.reasons, c.discarded, c.streaming, c.approvals, c.calls,
		c.unknown, c.holds, c.lives)
}

var updateTurns = writesRows(`
	update turns t
	   set state = d.state,
	       ended = d.ended,
	       end_reason = d.end_reason,
	       discarded = d.discarded,
	       streaming = d.streaming,
	       open_approvals = d.open_approvals,
	       open_calls = d.open_calls,
	       unknown_calls = d.unknown_calls,
	       hold_until = d.hold_until,
	       live_until = d.live_until,
	       version = (select version from topics p where p.tenant_id = t.tenant_id and p.topic_id = t.topic_id)
	  from (select unnest($2::uuid[]) as turn_id, unnest($3::text[]) as state, unnest($4::text[]) as ended,
	               unnest($5::text[]) as end_reason, unnest($6::boolean[]) as discarded,
	               unnest($7::boolean[]) as streaming, unnest($8::int[]) as open_approvals,
	               unnest($9::int[]) as open_calls, unnest($10::int[]) as unknown_calls,
	               unnest($11::timestamptz[]) as hold_until, unnest($12::timestamptz[]) as live_until) as d
	 where t.tenant_id = $1 and t.turn_id = d.turn_id and t.turn_id = any($2::uuid[])`)

type turnRows struct {
	ids, states, ended, reasons []string
	discarded, streaming        []bool
	approvals, calls, unknown   []int
	holds, lives                []*time.Time
}

func (c *turnRows) add(t *model.Turn) {
	c.ids = append(c.ids, string(t.ID))
	c.states = append(c.states, string(t.State()))
	c.ended = append(c.ended, string(t.Ended))
	c.reasons = append(c.reasons, t.EndReason)
	c.discarded = append(c.discarded, t.Discarded)
	c.streaming = append(c.streaming, t.Streaming)
	c.approvals = append(c.approvals, t.OpenApprovals)
	c.calls = append(c.calls, t.OpenCalls)
	c.unknown = append(c.unknown, t.UnknownCalls)
	var hold, live *time.Time
	if t.Hold != nil {
		hold = &t.Hold.Until
	}
	if t.Live != nil {
		live = &t.Live.LeaseUntil
	}
	c.holds = append(c.holds, hold)
	c.lives = append(c.lives, live)
}

// saveReleased writes which replies are not queued any more.
func (u *unit) saveReleased(b *pgx.Batch, turns []*model.Turn) {
	var ids []string
	for _, t := range turns {
		if u.queued[t.ID] && !t.Queued {
			ids = append(ids, string(t.ID))
		}
	}
	if len(ids) > 0 {
		b.Queue(releaseReplies, u.tenant, ids)
	}
}

const releaseReplies = `
	update turns set queued = false
	 where tenant_id = $1 and turn_id = any($2::uuid[])`

func (u *unit) saveContinuations(b *pgx.Batch, turns []*model.Turn) {
	var ids, topics, states, accepted []string
	var generations []int
	var ready []time.Time
	var waits []bool
	for _, t := range turns {
		c := t.Continuation
		if c == nil || !c.Changed {
			continue
		}
		ids, topics, states = append(ids, string(t.ID)), append(topics, string(t.Topic)), append(states, string(c.State))
		accepted, generations, ready = append(accepted, string(c.AcceptedBy)), append(generations, c.Generation), append(ready, c.ReadyAt)
		waits = append(waits, t.Sink.Type == model.SinkNone || t.Hold != nil || t.Queued)
	}
	if len(ids) > 0 {
		upsertContinuations.queue(b, nil, u.tenant, ids, topics, states, generations, ready, accepted, waits)
	}
}

var upsertContinuations = writesRows(`
	insert into continuations as k (tenant_id, turn_id, topic_id, state, generation, ready_at, next_at, accepted_by)
	select $1, d.turn_id, d.topic_id, d.state, d.generation, d.ready_at, case when d.waits then 'infinity' else d.ready_at end,
	       nullif(d.accepted_by, '')::uuid
	  from (select unnest($2::uuid[]) as turn_id, unnest($3::text[]) as topic_id, unnest($4::text[]) as state,
	               unnest($5::int[]) as generation, unnest($6::timestamptz[]) as ready_at,
	               unnest($7::text[]) as accepted_by, unnest($8::boolean[]) as waits) as d
	    on conflict (tenant_id, turn_id) do update
	   set state = excluded.state,
	       generation = excluded.generation,
	       accepted_by = excluded.accepted_by,
	       ready_at = excluded.ready_at,
	       next_at = case when excluded.state = 'ready' and (k.state <> 'ready' or k.next_at = 'infinity') then excluded.next_at
	                      else k.next_at end,
	       deliveries = case when excluded.generation > k.generation then 0 else k.deliveries end`)
