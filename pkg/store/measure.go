package store

import "context"

// NextTransactionID is the id that the next writing transaction will get; the
// difference of two is how many there were between them. Commit counters
// would count reads too.
func (s *Store) NextTransactionID(ctx context.Context) (int64, error) {
	var id int64
	err := s.pool.QueryRow(ctx, `select pg_snapshot_xmax(pg_current_snapshot())::text::bigint`).Scan(&id)
	return id, unavailable(err)
}
