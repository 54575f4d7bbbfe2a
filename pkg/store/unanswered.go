package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Unanswered is a continuation that any worker's model loop may accept now.
type Unanswered struct {
	Tenant      model.TenantID
	Turn        model.TurnID
	Traceparent string
}

// Unanswered finds continuations for the model loop that are due since a
// while, for workers with free slots: what answers with NATS off.
func (s *Store) Unanswered(ctx context.Context, since time.Duration, limit int) ([]Unanswered, error) {
	rows, err := s.pool.Query(ctx, selectUnanswered, since.Milliseconds(), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u Unanswered, err error) {
		err = row.Scan(&u.Tenant, &u.Turn, &u.Traceparent)
		return u, err
	})
	return out, unavailable(err)
}

const selectUnanswered = `
	select k.tenant_id, k.turn_id::text, t.traceparent
	  from continuations k
	  join turns t using (tenant_id, turn_id)
	 where k.state in ('ready', 'dispatched') and k.next_at <= clock_timestamp() - $1 * interval '1 millisecond'
	   and t.sink_type = 'model'
	 order by k.next_at
	 limit $2`
