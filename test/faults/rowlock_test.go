package faults

import (
	"context"
	"database/sql"
	"errors"

	"github.com/countersign/countersign/internal/cluster/testcluster"
)

// rowLock holds the row of a call, so that whoever is to change it has read
// all that it needs and waits to write.
type rowLock struct {
	tx  *sql.Tx
	pid int
}

// locks takes the row of a call.
func (s *shop) locks(call string) *rowLock {
	s.T.Helper()
	tx, err := s.Rows().BeginTx(s.T.Context(), nil)
	must(s.T, err)
	s.T.Cleanup(func() { _ = tx.Rollback() })
	l := &rowLock{tx: tx}
	must(s.T, tx.QueryRowContext(s.T.Context(), `
		select pg_backend_pid() from calls where call_id = $1 for no key update`, call).Scan(&l.pid))
	return l
}

// isWaitedFor waits until somebody waits for the row.
func (s *shop) isWaitedFor(l *rowLock) {
	s.T.Helper()
	testcluster.Eventually(s.T, "somebody waits for the call's row", func(ctx context.Context) error {
		n, err := testcluster.One[int](ctx, s.Deployment, `select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))`, l.pid)
		if err == nil && n == 0 {
			err = errors.New("nobody does")
		}
		return err
	})
}
