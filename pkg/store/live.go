package store

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Ending is how the owner of a live turn ends it: with the parts that the
// model made, or with an error.
type Ending struct {
	Turn    model.TurnID
	Topic   model.TopicID
	Fence   int64
	Token   string
	Content []byte // SHA-256 over what was sent, to know the same ending again
	Parts   Parts
	About   Metadata
	Calls   []NewCall
	Places  map[model.CallID]int // where the calls that were committed before stand within Parts
	Expiry  time.Duration
	Error   string // not "": the turn ends with it, and Parts and Calls are not looked at
	Aborted bool   // the error is that its own side gave up
	Actor   string
	Channel string
}

// FinishLive ends a live turn under its fence and token; its calls are
// committed with it. The same ending again gives the turn as it is now.
// Errors: [model.ErrNotFound], [model.ErrTurnEnded], [model.ErrFenceLost],
// [model.ErrInvalid] for a tool call id that the message has.
func (s *Store) FinishLive(ctx context.Context, tenant model.TenantID, e Ending) (Registered, error) {
	f := newFinisher(tenant, e)
	return s.onLive(ctx, "finish live", f, f.judge, f.write)
}

// onLive runs a transaction about a live turn: judge says whether there is
// anything to write.
func (s *Store) onLive(
	ctx context.Context, name string, f *finisher, judge func(*model.Turn) (bool, error), write func(*pgx.Batch),
) (Registered, error) {
	var out Registered
	var refused error
	err := transact(ctx, s.pool, name, func(ctx context.Context, t *tx) error {
		f.begin()
		if err := t.trip(ctx, f.read); err != nil {
			return err
		}
		turn := f.turns[f.ending.Turn]
		if turn == nil || turn.Topic != f.ending.Topic {
			refused = model.ErrNotFound
			return nil
		}
		if err := f.readSuspects(ctx, t, f.seen); err != nil {
			return err
		}
		out.Turn, out.Topic = turn, *f.seen[turn.Topic]
		if out.Created, refused = judge(turn); refused != nil || !out.Created {
			return t.confirm(ctx, nothing)
		}
		if _, err := f.dirty(); err != nil {
			return err
		}
		if err := t.commit(ctx, write); err != nil {
			return err
		}
		out.Topic = *f.topics[turn.Topic]
		s.changed(f.changes())
		return nil
	})
	if err != nil {
		return Registered{}, unavailable(err)
	}
	return out, refused
}

type finisher struct {
	*unit
	ending  Ending
	which   string // the turns that it is about
	content []byte
	fence   int64
	token   string
	used    []string
}

func newFinisher(tenant model.TenantID, e Ending) *finisher {
	return &finisher{unit: &unit{tenant: tenant}, ending: e, which: `select ($2::text)::uuid`}
}

// begin forgets what an earlier try of the transaction had read.
func (f *finisher) begin() {
	f.unit = newUnit(f.tenant)
	f.inserts = &inserts{}
}

func (f *finisher) read(b *pgx.Batch) {
	ids := make([]string, len(f.ending.Calls))
	for i := range f.ending.Calls {
		ids[i] = f.ending.Calls[i].Call.ToolCallID
	}
	f.load(b, f.which, string(f.ending.Turn))
	b.Queue(selectLive, f.tenant, string(f.ending.Turn), ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := rows.Scan(&f.content, &f.fence, &f.token, &f.used); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	b.Queue(selectTopicOfTurn, f.tenant, string(f.ending.Turn)).Query(f.scanTopicsRead)
	f.clock(b)
}

const selectLive = `
	select t.content, t.live_fence, t.live_token,
	       array(select c.tool_call_id from calls c
	              where c.tenant_id = $1 and c.turn_id = any(array(
	                    select x.turn_id from turns x
	                     where x.tenant_id = $1 and x.topic_id = t.topic_id and x.message_id = t.message_id))
	                and c.tool_call_id = any($3::text[]))
	  from turns t
	 where t.tenant_id = $1 and t.turn_id = ($2::text)::uuid`

const selectTopicOfTurn = `
	select ` + topicColumns + `
	  from topics
	 where tenant_id = $1 and topic_id = (select topic_id from turns where tenant_id = $1 and turn_id = ($2::text)::uuid)`

// again tells whether the turn has ended with this very ending already.
func (f *finisher) again(t *model.Turn) bool {
	e := f.ending
	return t.Live == nil && f.token == e.Token && f.fence == e.Fence && bytes.Equal(f.content, e.Content)
}

func (f *finisher) judge(t *model.Turn) (bool, error) {
	e := f.ending
	if f.again(t) {
		return false, nil
	}
	if err := t.CheckLive(e.Fence, e.Token); err != nil {
		return false, err
	}
	if e.Error != "" {
		state := model.TurnError
		if e.Aborted {
			state = model.TurnAborted
		}
		t.End(state, model.OutcomeCancelled, e.Error, f.now)
		return true, nil
	}
	if len(f.used) > 0 {
		return false, &DuplicateToolCall{f.used[0]}
	}
	calls := f.admit(t.Topic, e.Calls, e.Expiry)
	streamed := len(t.Calls) > 0 // and audited, each when it was committed
	t.Calls = append(t.Calls, calls...)
	t.Finalize(f.now)
	if streamed {
		t.AuditCalls(e.Actor, e.Channel, calls, f.now)
	} else {
		t.AuditRegistration(e.Actor, e.Channel, f.now)
	}
	return true, nil
}

func (f *finisher) write(b *pgx.Batch) {
	if f.ending.Error == "" {
		turn := f.turns[f.ending.Turn]
		f.writeParts(b, turn, f.ending.Parts, f.ending.About, f.ending.Calls, f.ending.Places)
	}
	b.Queue(updateTurnContent, f.tenant, string(f.ending.Turn), f.ending.Content)
	f.saveChanged(b)
}

// writeParts writes a live turn's parts and what it says of its message, with
// the calls that are new: the last ones of the turn's.
func (f *finisher) writeParts(
	b *pgx.Batch, turn *model.Turn, parts Parts, about Metadata, calls []NewCall, places map[model.CallID]int,
) {
	b.Queue(updateTurnParts, f.tenant, string(turn.ID), parts.encode(), about.encode())
	f.inserts.addCalls(turn, turn.Calls[len(turn.Calls)-len(calls):], calls)
	var ids []string
	var moved []int
	for _, c := range turn.Calls {
		if place, known := places[c.ID]; known && place != c.Part {
			ids, moved = append(ids, string(c.ID)), append(moved, place)
		}
	}
	if len(ids) > 0 {
		b.Queue(updatePlaces, f.tenant, ids, moved)
	}
}

const updatePlaces = `
	update calls c
	   set part = d.part
	  from unnest($2::uuid[], $3::int[]) as d (call_id, part)
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[])`

const updateTurnParts = `
	update turns
	   set parts = $3,
	       metadata = $4
	 where tenant_id = $1 and turn_id = ($2::text)::uuid`

const updateTurnContent = `
	update turns set content = $3
	 where tenant_id = $1 and turn_id = ($2::text)::uuid`
