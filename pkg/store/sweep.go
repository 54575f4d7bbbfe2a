package store

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

const (
	// sweepLimit bounds the turns that are looked up at once.
	sweepLimit = 200
	// sweepRounds bounds how often a sweep looks for more: 10,000 turns. What
	// is left is due at the next.
	sweepRounds = 50
	// sweepTenants is how many tenants are swept at once, half of the pool.
	sweepTenants = 4
)

// candidate is a turn that a sweep found; whether anything is due is checked
// again under its lock.
type candidate struct {
	tenant model.TenantID
	turn   model.TurnID
}

// ExpireApprovals closes the cards whose deadline has passed, and returns how
// many turns it changed.
func (s *Store) ExpireApprovals(ctx context.Context) (int, error) {
	return s.sweep(ctx, "expire", selectExpired, func(u *unit, t *model.Turn) {
		for _, c := range t.Calls {
			t.Expire(c, u.now)
		}
	})
}

const selectExpired = `
	select distinct tenant_id, turn_id::text
	  from approvals
	 where state = 'requested' and expires_at <= clock_timestamp()
	 limit $1`

// LapseHolds answers for the holders that are gone, and lets the replies be
// given that were held by turns which are over.
func (s *Store) LapseHolds(ctx context.Context) (int, error) {
	return s.sweep(ctx, "lapse", selectLapsed, func(u *unit, t *model.Turn) {
		if !t.Release(u.now) {
			t.Lapse(u.now)
		}
	})
}

const selectLapsed = `
	(select tenant_id, turn_id::text
	   from turns
	  where hold_until <= clock_timestamp()
	  limit $1)
	 union all
	(select tenant_id, turn_id::text
	   from turns q
	  where queued and ` + itsTurnHasCome + `
	  limit $1)`

// itsTurnHasCome is that nothing of the topic is open before a queued reply q.
const itsTurnHasCome = `not exists (
	         select from turns o
	          where o.tenant_id = q.tenant_id and o.topic_id = q.topic_id and o.open and o.turn_id <> q.turn_id
	            and (not o.queued or o.turn_id < q.turn_id))`

// LoseLeases takes started runs away from owners whose lease has run out.
func (s *Store) LoseLeases(ctx context.Context) (int, error) {
	return s.sweep(ctx, "lose-leases", selectLost, func(u *unit, t *model.Turn) {
		for _, c := range t.Calls {
			t.LoseLease(c, u.now)
		}
	})
}

const selectLost = `
	select distinct tenant_id, turn_id::text
	  from calls
	 where run = 'started' and lease_until <= clock_timestamp()
	 limit $1`

// StopUnclaimed stops calls that a caller was to run and did not claim for a
// day.
func (s *Store) StopUnclaimed(ctx context.Context) (int, error) {
	return s.sweep(ctx, "stop-unclaimed", selectUnclaimed, func(u *unit, t *model.Turn) {
		for _, c := range t.Calls {
			if c.Tool.Executor == model.ExecutorCaller && c.Run == model.RunQueued && !u.now.Before(c.QueuedAt.Add(model.DeadLetterAfter)) {
				t.StopQueued(c, "The caller did not claim it within a day. The tool did not run.", u.now)
			}
		}
	})
}

const selectUnclaimed = `
	select distinct tenant_id, turn_id::text
	  from calls
	 where run = 'queued' and executor = 'caller' and queued_at <= clock_timestamp() - interval '1 day'
	 limit $1`

// CloseDeadTurns closes live turns whose lease has run out, and returns the
// continuation that one without a committed call had accepted.
func (s *Store) CloseDeadTurns(ctx context.Context) (int, error) {
	return s.sweep(ctx, "close-dead-turns", selectDead, func(u *unit, t *model.Turn) {
		if t.Die(u.now) && t.Discarded {
			if continued := u.turns[t.Continues]; continued != nil {
				continued.Return(t.ID, u.now)
			}
		}
	})
}

const selectDead = `
	select tenant_id, turn_id::text
	  from turns
	 where live_until <= clock_timestamp()
	 limit $1`

// FailContinuations gives up deliveries that were tried for a day.
func (s *Store) FailContinuations(ctx context.Context) (int, error) {
	return s.sweep(ctx, "fail-continuations", selectUndeliverable, func(u *unit, t *model.Turn) { t.GiveUp(u.now) })
}

const selectUndeliverable = `
	select k.tenant_id, k.turn_id::text
	  from continuations k
	  join turns t using (tenant_id, turn_id)
	 where k.state in ('ready', 'dispatched') and t.sink_type <> 'none' and t.hold_until is null and not t.queued
	   and k.ready_at <= clock_timestamp() - interval '1 day'
	 limit $1`

// sweep finds turns and changes them, tenant by tenant, each under its lock,
// until no more are due. What fails for one tenant keeps nobody else's.
func (s *Store) sweep(ctx context.Context, name, find string, change func(*unit, *model.Turn)) (int, error) {
	total := 0
	for range sweepRounds {
		found, err := s.candidates(ctx, find)
		if err != nil {
			return total, unavailable(err)
		}
		n, err := s.changeEach(ctx, name, found, change)
		if total += n; err != nil || n == 0 || len(found) < sweepLimit {
			return total, err
		}
	}
	return total, nil
}

func (s *Store) candidates(ctx context.Context, find string) ([]candidate, error) {
	rows, err := s.pool.Query(ctx, find, sweepLimit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c candidate, err error) {
		err = row.Scan(&c.tenant, &c.turn)
		return c, err
	})
}

// changeEach changes the candidates of a few tenants at once, whose commits
// then share the disk's.
func (s *Store) changeEach(ctx context.Context, name string, found []candidate, change func(*unit, *model.Turn)) (int, error) {
	byTenant := map[model.TenantID][]string{}
	for _, c := range found {
		byTenant[c.tenant] = append(byTenant[c.tenant], string(c.turn))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	total, slots := 0, make(chan struct{}, sweepTenants)
	for tenant, turns := range byTenant {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			n, err := s.changeTenant(ctx, tenant, name, turns, change)
			mu.Lock()
			defer mu.Unlock()
			total, errs = total+n, append(errs, err)
		})
	}
	wg.Wait()
	return total, errors.Join(errs...)
}

// changeTenant changes turns in one commit; if that fails, one by one, so that
// a turn that cannot be changed does not keep its neighbours.
func (s *Store) changeTenant(ctx context.Context, tenant model.TenantID, name string, turns []string, change func(*unit, *model.Turn)) (int, error) {
	total, err := s.change(ctx, tenant, name, withContinued, turns, change)
	if err == nil || errors.Is(err, model.ErrUnavailable) || len(turns) == 1 {
		return total, err
	}
	var errs []error
	for _, turn := range turns {
		n, err := s.change(ctx, tenant, name, withContinued, []string{turn}, change)
		total, errs = total+n, append(errs, err)
	}
	return total, errors.Join(errs...)
}

// withContinued names turns, and those that they continue.
const withContinued = `
	select unnest($2::uuid[])
	 union
	select continues from turns
	 where tenant_id = $1 and turn_id = any($2::uuid[]) and continues is not null`

// change loads turns under their locks, applies one change to each, and
// commits what came of it. It returns how many turns were changed.
func (s *Store) change(
	ctx context.Context, tenant model.TenantID, name, which string, arg any, change func(*unit, *model.Turn),
) (int, error) {
	n := 0
	var changes []Change
	err := transact(ctx, s.pool, name, func(ctx context.Context, t *tx) error {
		u := newUnit(tenant)
		err := t.trip(ctx, func(b *pgx.Batch) {
			u.load(b, which, arg)
			u.clock(b)
		})
		if err != nil {
			return err
		}
		for _, turn := range u.sorted() {
			change(u, turn)
		}
		if n, err = u.changedTurns(); err != nil {
			return err
		}
		if n == 0 {
			return t.confirm(ctx, nothing)
		}
		if err := t.commit(ctx, u.saveChanged); err != nil {
			return err
		}
		changes = u.changes()
		return nil
	})
	if err != nil {
		return 0, unavailable(err)
	}
	if len(changes) > 0 {
		s.changed(changes)
	}
	return n, nil
}

func (u *unit) changedTurns() (int, error) {
	n := 0
	for _, t := range u.turns {
		if err := t.Err(); err != nil {
			return 0, err
		}
		if t.Changed {
			n++
		}
	}
	return n, nil
}
