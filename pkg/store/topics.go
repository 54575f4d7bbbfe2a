package store

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// TopicView is a topic with its open turns: what the projection shows.
type TopicView struct {
	model.Topic
	Turns []TurnView // that have not ended, oldest first
	Epoch string     // of the database, see [Store.Epoch]
}

// TurnView is a turn's standing.
type TurnView struct {
	ID            model.TurnID
	State         model.TurnState
	Message       model.MessageID
	OpenApprovals int
	OpenCalls     int
	Reply         bool // it asks for an answer to its message
	Queued        bool // and that waits until the turns before it are over
}

// Topic reads one topic. Errors: [model.ErrNotFound].
func (s *Store) Topic(ctx context.Context, tenant model.TenantID, id model.TopicID) (TopicView, error) {
	all, err := s.TopicViews(ctx, []TopicKey{{tenant, id}})
	if err != nil {
		return TopicView{}, err
	}
	if len(all) == 0 {
		return TopicView{}, model.ErrNotFound
	}
	return all[0], nil
}

// TopicViews reads many topics at once; one that does not exist is left out.
func (s *Store) TopicViews(ctx context.Context, keys []TopicKey) ([]TopicView, error) {
	tenants, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		tenants[i], ids[i] = string(k.Tenant), string(k.Topic)
	}
	return s.topicViews(ctx, selectTopics, selectOpenTurns, tenants, ids)
}

const selectTopics = `
	select t.tenant_id, t.topic_id, t.version, t.streaming, t.awaiting, t.attention, t.executing, t.continuing, t.failed, t.last,
	       t.messages
	  from unnest($1::text[], $2::text[]) as w (tenant_id, topic_id)
	  join topics t using (tenant_id, topic_id)
	 where t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])`

const selectOpenTurns = `
	select t.tenant_id, t.topic_id, t.turn_id::text, t.state, t.message_id, t.open_approvals, t.open_calls, t.reply, t.queued
	  from unnest($1::text[], $2::text[]) as w (tenant_id, topic_id)
	  join turns t using (tenant_id, topic_id)
	 where t.open
	   and t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])
	 order by t.turn_id`

// ListTopics lists a tenant's topics by id. after is the id of the last one of
// the page before, or "".
func (s *Store) ListTopics(ctx context.Context, tenant model.TenantID, status model.TopicStatus, after model.TopicID, limit int) ([]TopicView, error) {
	rows, err := s.pool.Query(ctx, listTopics, tenant, string(status), string(after), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[model.TopicID])
	if err != nil {
		return nil, unavailable(err)
	}
	keys := make([]TopicKey, len(ids))
	for i, id := range ids {
		keys[i] = TopicKey{tenant, id}
	}
	views, err := s.TopicViews(ctx, keys)
	slices.SortFunc(views, func(a, b TopicView) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return views, err
}

// listTopics derives the status as model.Topic.Status does; a test compares
// the two.
const listTopics = `
	select topic_id
	  from topics
	 where tenant_id = $1 and topic_id > $3
	   and ($2 = '' or $2 = ` + topicStatus + `)
	 order by topic_id
	 limit $4`

const topicStatus = `case
	       when streaming > 0 then 'streaming'
	       when awaiting > 0 or attention > 0 then 'awaiting-approval'
	       when executing > 0 or continuing > 0 then 'pending'
	       when failed > 0 then 'error'
	       when last = '' then 'done'
	       else last end`

func (s *Store) topicViews(ctx context.Context, topics, turns string, args ...any) ([]TopicView, error) {
	var out []TopicView
	index := map[TopicKey]int{}
	epoch := s.Epoch() // before the rows: they are of this one, or of a later one
	b := &pgx.Batch{}
	// One snapshot for both statements: a projection must never show a
	// version with the turns of another.
	b.Queue(`begin isolation level repeatable read read only`)
	b.Queue(topics, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			v := TopicView{Epoch: epoch}
			c := &v.Counters
			if err := rows.Scan(&v.Tenant, &v.ID, &v.Version, &c.Streaming, &c.Awaiting, &c.Attention, &c.Executing, &c.Continuing,
				&c.Failed, &v.Last, &v.Messages); err != nil {
				return err
			}
			index[TopicKey{v.Tenant, v.ID}] = len(out)
			out = append(out, v)
		}
		return rows.Err()
	})
	b.Queue(turns, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var key TopicKey
			var t TurnView
			if err := rows.Scan(&key.Tenant, &key.Topic, &t.ID, &t.State, &t.Message, &t.OpenApprovals, &t.OpenCalls, &t.Reply, &t.Queued); err != nil {
				return err
			}
			if i, ok := index[key]; ok {
				out[i].Turns = append(out[i].Turns, t)
			}
		}
		return rows.Err()
	})
	b.Queue(`commit`)
	return out, s.readBatch(ctx, b)
}

// readBatch runs statements that begin and commit by themselves; a connection
// that is left within a transaction is not given back to the pool.
func (s *Store) readBatch(ctx context.Context, b *pgx.Batch) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return unavailable(err)
	}
	defer conn.Release()
	return unavailable(conn.SendBatch(ctx, b).Close())
}

// Turn reads one turn with its calls. Errors: [model.ErrNotFound].
func (s *Store) Turn(ctx context.Context, tenant model.TenantID, id model.TurnID) (*model.Turn, error) {
	t, _, err := s.TurnInTopic(ctx, tenant, id)
	return t, err
}

// TurnInTopic reads one turn with its calls, and its topic as it was at the
// same moment. Errors: [model.ErrNotFound].
func (s *Store) TurnInTopic(ctx context.Context, tenant model.TenantID, id model.TurnID) (*model.Turn, model.Topic, error) {
	u := newUnit(tenant)
	b := &pgx.Batch{}
	b.Queue(`begin isolation level repeatable read read only`)
	u.read(b, `select ($2::text)::uuid`, string(id))
	b.Queue(selectTopicOfTurn, tenant, string(id)).Query(u.scanTopicsRead)
	b.Queue(`commit`)
	if err := s.readBatch(ctx, b); err != nil {
		return nil, model.Topic{}, err
	}
	t := u.turns[id]
	if t == nil || u.seen[t.Topic] == nil {
		return nil, model.Topic{}, model.ErrNotFound
	}
	slices.SortFunc(t.Calls, func(a, b *model.Call) int { return a.Part - b.Part })
	return t, *u.seen[t.Topic], nil
}

// Version reads a topic's version. Errors: [model.ErrNotFound].
func (s *Store) Version(ctx context.Context, tenant model.TenantID, id model.TopicID) (version int64, err error) {
	err = s.pool.QueryRow(ctx, `select version from topics where tenant_id = $1 and topic_id = $2`, tenant, string(id)).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, model.ErrNotFound
	}
	return version, unavailable(err)
}

// Versions reads the versions of many topics, for a node to find out which of
// those that it shows it was not told about.
func (s *Store) Versions(ctx context.Context, keys []TopicKey) (map[TopicKey]int64, error) {
	tenants, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		tenants[i], ids[i] = string(k.Tenant), string(k.Topic)
	}
	out := map[TopicKey]int64{}
	rows, err := s.pool.Query(ctx, selectVersions, tenants, ids)
	if err != nil {
		return nil, unavailable(err)
	}
	var key TopicKey
	var version int64
	_, err = pgx.ForEachRow(rows, []any{&key.Tenant, &key.Topic, &version}, func() error {
		out[key] = version
		return nil
	})
	return out, unavailable(err)
}

const selectVersions = `
	select t.tenant_id, t.topic_id, t.version
	  from unnest($1::text[], $2::text[]) as w (tenant_id, topic_id)
	  join topics t using (tenant_id, topic_id)
	 where t.tenant_id = any($1::text[]) and t.topic_id = any($2::text[])`
