package testcluster

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Rows is a connection of the test's own to the database: for time that
// passes, and for what no answer shows.
func (d *Deployment) Rows() *sql.DB { return d.sql }

// Change runs a statement that must change exactly one row.
func (d *Deployment) Change(statement string, args ...any) {
	d.T.Helper()
	result, err := d.sql.ExecContext(d.T.Context(), statement, args...)
	must(d.T, err)
	if n, _ := result.RowsAffected(); n != 1 {
		d.T.Fatalf("%s: %d rows changed, want 1", statement, n)
	}
}

// One reads a single value.
func One[T any](ctx context.Context, d *Deployment, query string, args ...any) (value T, err error) {
	err = d.sql.QueryRowContext(ctx, query, args...).Scan(&value)
	return value, err
}
