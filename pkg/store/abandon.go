package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// AbandonLive closes a live turn that could not be answered, with the reason,
// which is the Error of the ending. The calls that it committed stand; without
// any the turn is discarded, and the continuation that it had accepted has
// failed until somebody redrives it. The same again gives the turn as it is
// now. Errors: as [Store.FinishLive].
func (s *Store) AbandonLive(ctx context.Context, tenant model.TenantID, e Ending) (Registered, error) {
	e.Calls, e.Error = nil, storable(e.Error)
	a := &abandoner{newFinisher(tenant, e)}
	a.which = withTheContinued
	return s.onLive(ctx, "abandon live", a.finisher, a.judge, a.write)
}

// withTheContinued names a turn, and the one that it continues.
const withTheContinued = `
	select ($2::text)::uuid
	 union
	select continues from turns
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and continues is not null`

// abandoner is a finisher that gives back what the turn had accepted.
type abandoner struct{ *finisher }

func (a *abandoner) judge(t *model.Turn) (bool, error) {
	e := a.ending
	if a.again(t) {
		return false, nil
	}
	if err := t.CheckLive(e.Fence, e.Token); err != nil {
		return false, err
	}
	t.Abandon(e.Error, e.Actor, e.Channel, a.now)
	if continued := a.turns[t.Continues]; t.Discarded && continued != nil {
		continued.FailAnswer(t.ID, a.now)
	}
	return true, nil
}

func (a *abandoner) write(b *pgx.Batch) {
	t := a.turns[a.ending.Turn]
	b.Queue(updateTurnContent, a.tenant, string(t.ID), a.ending.Content)
	a.saveChanged(b)
	if t.Discarded && t.Continues != "" {
		b.Queue(updateLastError, a.tenant, string(t.Continues), a.ending.Error)
	}
}

const updateLastError = `
	update continuations set last_error = $3
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and state = 'failed'`
