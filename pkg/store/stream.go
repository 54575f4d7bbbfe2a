package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
)

// Streamer names who writes a live turn's stream.
type Streamer struct {
	Turn  model.TurnID
	Topic model.TopicID
	Fence int64
	Token string
}

// Streaming is a stream that began: the fence that its writer holds from now
// on, and where the turn stands.
type Streaming struct {
	Fence   int64
	Message model.MessageID
	Step    int
}

// BeginStream hands a live turn's stream to a writer that knows its fence and
// token. The fence grows, so that whoever wrote before can commit nothing
// more. Errors: [model.ErrNotFound], [model.ErrTurnEnded], [model.ErrFenceLost].
func (s *Store) BeginStream(ctx context.Context, tenant model.TenantID, w Streamer, lease time.Duration) (out Streaming, err error) {
	err = s.pool.QueryRow(ctx, beginStream, tenant, string(w.Turn), w.Topic, w.Fence, w.Token, lease.Milliseconds()).
		Scan(&out.Fence, &out.Message, &out.Step)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, s.notLive(ctx, tenant, w)
	}
	if err == nil {
		err = failpoint.Hit(ctx, failpoint.StreamAfterBegin)
	}
	return out, unavailable(err)
}

const beginStream = `
	update turns
	   set live_fence = live_fence + 1,
	       live_until = clock_timestamp() + $6 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and topic_id = $3 and live_fence = $4 and live_token = $5
	   and live_until > clock_timestamp()
	returning live_fence, message_id, step`

// RenewStream moves the lease of a live turn on. Errors: as
// [Store.BeginStream]: the writer has nothing more to say.
func (s *Store) RenewStream(ctx context.Context, tenant model.TenantID, w Streamer, lease time.Duration) error {
	tag, err := s.pool.Exec(ctx, renewStream, tenant, string(w.Turn), w.Topic, w.Fence, w.Token, lease.Milliseconds())
	if err == nil && tag.RowsAffected() == 0 {
		return s.notLive(ctx, tenant, w)
	}
	return unavailable(err)
}

// renewStream never brings a lease back that has run out: its end and its
// renewal race for the row, and whichever commits first stands.
const renewStream = `
	update turns
	   set live_until = clock_timestamp() + $6 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and topic_id = $3 and live_fence = $4 and live_token = $5
	   and live_until > clock_timestamp()`

// notLive says why a turn is not its writer's to stream to.
func (s *Store) notLive(ctx context.Context, tenant model.TenantID, w Streamer) error {
	t, err := s.Turn(ctx, tenant, w.Turn)
	switch {
	case err != nil:
		return err
	case t.Topic != w.Topic:
		return model.ErrNotFound
	}
	if err := t.CheckLive(w.Fence, w.Token); err != nil {
		return err
	}
	return model.ErrFenceLost // its lease has run out; the sweep will say so
}

// Extension are calls that a live turn's stream completed, with the turn's
// parts as far as they got.
type Extension struct {
	Streamer
	Parts   Parts
	About   Metadata
	Calls   []NewCall            // those that are new
	Places  map[model.CallID]int // of the calls that were committed before
	Expiry  time.Duration
	Lease   time.Duration
	Actor   string
	Channel string
}

// ExtendLive commits calls of a live turn while it streams, so that every
// card can be answered before it is shown (I7). The same calls again give the
// turn as it is now. Errors: [model.ErrNotFound], [model.ErrTurnEnded],
// [model.ErrFenceLost], [model.ErrInvalid] for a tool call id that the message
// has.
func (s *Store) ExtendLive(ctx context.Context, tenant model.TenantID, e Extension) (Registered, error) {
	x := &extender{newFinisher(tenant, Ending{Turn: e.Turn, Topic: e.Topic, Calls: e.Calls}), e}
	return s.onLive(ctx, "extend live", x.finisher, x.judge, x.write)
}

// extender is a finisher that leaves the turn streaming.
type extender struct {
	*finisher
	extension Extension
}

func (x *extender) judge(t *model.Turn) (bool, error) {
	e := x.extension
	if err := t.CheckLive(e.Fence, e.Token); err != nil {
		return false, err
	}
	if len(e.Calls) > 0 && t.Call(e.Calls[0].Call.ID) != nil {
		return false, nil // a commit whose answer was lost
	}
	if len(x.used) > 0 {
		return false, &DuplicateToolCall{x.used[0]}
	}
	calls := x.admit(t.Topic, e.Calls, e.Expiry)
	t.Extend(calls, e.Lease, x.now)
	t.AuditCalls(e.Actor, e.Channel, calls, x.now)
	return true, nil
}

func (x *extender) write(b *pgx.Batch) {
	t := x.turns[x.extension.Turn]
	x.writeParts(b, t, x.extension.Parts, x.extension.About, x.extension.Calls, x.extension.Places)
	x.saveChanged(b)
}
