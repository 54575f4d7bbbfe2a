package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Finished is a result that was committed, with what it made of the call.
type Finished struct {
	Turn *model.Turn
	Call *model.Call
}

// Finish records an attempt's end under its fence and token, and makes the
// turn's continuation if this was the last. The same result again is nothing
// new. Errors: [model.ErrNotFound], [model.ErrFenceLost],
// [model.ErrResultConflict].
func (s *Store) Finish(
	ctx context.Context, tenant model.TenantID, call model.CallID, fence int64, token string, r model.Result,
) (Finished, error) {
	r.Text = storable(r.Text)
	return s.finish.submit(ctx, tenant, finishItem{call, fence, token, r})
}

type finishItem struct {
	call   model.CallID
	fence  int64
	token  string
	result model.Result
}

func (s *Store) finishAll(ctx context.Context, tenant model.TenantID, items []finishItem) ([]outcome[Finished], error) {
	var out []outcome[Finished]
	err := transact(ctx, s.hot, "finish", func(ctx context.Context, t *tx) error {
		u := newUnit(tenant)
		calls := make([]string, len(items))
		for i, it := range items {
			calls[i] = string(it.call)
		}
		err := t.trip(ctx, func(b *pgx.Batch) {
			u.loadByCalls(b, callTurns, calls)
			u.clock(b)
		})
		if err != nil {
			return err
		}
		out = finishEach(u, items)
		changed, err := u.dirty()
		switch {
		case err != nil:
			return err
		case !changed:
			return t.confirm(ctx, nothing)
		}
		if err := t.commit(ctx, u.saveChanged); err != nil {
			return err
		}
		s.changed(u.changes())
		return nil
	})
	return out, err
}

func finishEach(u *unit, items []finishItem) []outcome[Finished] {
	owner := u.owners()
	out := make([]outcome[Finished], len(items))
	for i, it := range items {
		t := owner[it.call]
		if t == nil {
			out[i].err = model.ErrNotFound
			continue
		}
		call := t.Call(it.call)
		out[i] = outcome[Finished]{Finished{t, call}, t.Finish(call, it.fence, it.token, it.result, u.now)}
	}
	return out
}
