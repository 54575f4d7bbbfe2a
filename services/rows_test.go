package services

import (
	"context"
	"database/sql"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// What tests do to the rows themselves: time that passes, and what no answer
// shows.

// rows is a connection of the test's own to the database.
func (d *deployment) rows() *sql.DB {
	d.t.Helper()
	if d.sql == nil {
		var err error
		d.sql, err = sql.Open("pgx", d.database)
		must(d.t, err)
		d.t.Cleanup(func() { _ = d.sql.Close() })
	}
	return d.sql
}

// change runs a statement that must change exactly one row.
func (d *deployment) change(statement string, args ...any) {
	d.t.Helper()
	result, err := d.rows().ExecContext(d.t.Context(), statement, args...)
	must(d.t, err)
	if n, _ := result.RowsAffected(); n != 1 {
		d.t.Fatalf("%s: %d rows changed, want 1", statement, n)
	}
}

// one reads a single value.
func one[T any](ctx context.Context, d *deployment, query string, args ...any) (value T, err error) {
	err = d.rows().QueryRowContext(ctx, query, args...).Scan(&value)
	return value, err
}

// hinted tells whether a call's hint was published and marked.
func (d *deployment) hinted(ctx context.Context, call string) error {
	n, err := one[int](ctx, d, `select published from calls where call_id = $1`, call)
	if err == nil && n == 0 {
		err = fmt.Errorf("call %s is not hinted at", call)
	}
	return err
}
