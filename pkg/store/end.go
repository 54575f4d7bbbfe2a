package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Cancel ends one turn of a topic, or with an empty id all that are open, and
// returns how many it ended. With nothing open nothing is written. Errors:
// [model.ErrNotFound] for a turn or a topic that is not there.
func (s *Store) Cancel(ctx context.Context, tenant model.TenantID, topic model.TopicID, turn model.TurnID, actor, channel string) (int, error) {
	if _, err := s.Topic(ctx, tenant, topic); err != nil {
		return 0, err
	}
	if turn != "" {
		t, err := s.Turn(ctx, tenant, turn)
		if err != nil {
			return 0, err
		}
		if t.Topic != topic {
			return 0, model.ErrNotFound
		}
		return s.change(ctx, tenant, "cancel", `select ($2::text)::uuid`, string(turn), cancelTurn(actor, channel))
	}
	return s.change(ctx, tenant, "cancel", openTurnsOfTopic, string(topic), cancelTurn(actor, channel))
}

const openTurnsOfTopic = `
	select turn_id from turns
	 where tenant_id = $1 and topic_id = $2 and open`

func cancelTurn(actor, channel string) func(*unit, *model.Turn) {
	return func(u *unit, t *model.Turn) {
		if t.End(model.TurnAborted, model.OutcomeCancelled, model.TextCancelled, u.now) {
			t.AuditCancel(actor, channel, u.now)
		}
	}
}

// StopQueued stops a call that a worker may not or cannot run, with the text
// that says why. Stopping one that is not queued any more is nothing.
func (s *Store) StopQueued(ctx context.Context, tenant model.TenantID, call model.CallID, text string) error {
	text = storable(text)
	_, err := s.change(ctx, tenant, "stop", callTurn, string(call), func(u *unit, t *model.Turn) {
		if c := t.Call(call); c != nil {
			t.StopQueued(c, text, u.now)
		}
	})
	return err
}

const callTurn = `
	select turn_id from calls
	 where tenant_id = $1 and call_id = ($2::text)::uuid`

// Redrive makes a failed continuation ready again. Errors:
// [model.ErrNotFound], [model.ErrContinuationAccepted],
// [model.ErrContinuationEnded].
func (s *Store) Redrive(ctx context.Context, tenant model.TenantID, turn model.TurnID, actor, channel string) error {
	found, outcome := false, error(nil)
	_, err := s.change(ctx, tenant, "redrive", `select ($2::text)::uuid`, string(turn), func(u *unit, t *model.Turn) {
		found, outcome = true, t.Redrive(actor, channel, u.now)
	})
	switch {
	case err != nil:
		return err
	case !found:
		return model.ErrNotFound
	}
	return outcome
}

// RenewHold moves the lease of a held turn on; a turn without a hold is left
// as it is.
func (s *Store) RenewHold(ctx context.Context, tenant model.TenantID, turn model.TurnID) error {
	_, err := s.pool.Exec(ctx, renewHold, tenant, string(turn))
	return unavailable(err)
}

// renewHold never brings a hold back that has run out: lapse and renewal race
// for the row, and whichever commits first stands.
const renewHold = `
	update turns
	   set hold_until = clock_timestamp() + hold_lease_ms * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and hold_until > clock_timestamp()`

// Renewal is one lease that its owner wants moved on.
type Renewal struct {
	Call  model.CallID
	Fence int64
	Token string
}

// Renewed is what became of a renewal: the new end of the lease, and whether
// the turn was ended meanwhile, so that the owner may give up.
type Renewed struct {
	Call       model.CallID
	LeaseUntil time.Time
	Cancel     bool
}

// RenewLeases moves the leases of started runs on and gives those that still
// are their owner's; a run that is missing was taken away.
func (s *Store) RenewLeases(ctx context.Context, tenant model.TenantID, renewals []Renewal, leaseMS int64) ([]Renewed, error) {
	var ids, tokens []string
	var fences []int64
	for _, r := range renewals {
		ids, tokens, fences = append(ids, string(r.Call)), append(tokens, r.Token), append(fences, r.Fence)
	}
	rows, err := s.pool.Query(ctx, renewLeases, tenant, ids, fences, tokens, leaseMS)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Renewed, err error) {
		err = row.Scan(&r.Call, &r.LeaseUntil, &r.Cancel)
		return r, err
	})
	return out, unavailable(err)
}

// renewLeases locks in order of id, as everybody does. A lease that has run
// out is not renewed: the sweep may be taking the run away at this moment.
const renewLeases = `
	with owned as (
	    select c.call_id, t.ended <> '' as ended
	      from unnest($2::uuid[], $3::bigint[], $4::text[]) as r (call_id, fence, token)
	      join calls c on c.tenant_id = $1 and c.call_id = r.call_id and c.fence = r.fence and c.claim_token = r.token
	                  and c.run = 'started' and c.call_id = any($2::uuid[]) and c.lease_until > clock_timestamp()
	      join turns t on t.tenant_id = $1 and t.turn_id = c.turn_id and t.turn_id = any(array(
	             select turn_id from calls where tenant_id = $1 and call_id = any($2::uuid[])))
	     order by c.call_id
	       for no key update of c
	)
	update calls c
	   set lease_until = clock_timestamp() + $5 * interval '1 millisecond'
	  from owned
	 where c.tenant_id = $1 and c.call_id = owned.call_id and c.call_id = any($2::uuid[])
	returning c.call_id::text, c.lease_until, owned.ended`
