package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A server that crashed has no statistics until somebody analyzes, and then
// takes every table for a small one. No invariant may be asked by going
// through a whole table once per row of another, which takes forever as soon as
// there are some thousand rows.
func TestAllRowsAreReadOnceWhateverTheStatisticsSay(t *testing.T) {
	t.Parallel()
	s := open(t)
	scope := Scope{AtRest: true}
	scope.defaults()
	conn, err := s.verifying(t.Context(), scope)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, i := range Invariants() {
		rows, err := conn.Query(t.Context(), "explain (costs off) "+violations(everywhere.Replace(i.sql)),
			pgx.QueryExecModeSimpleProtocol, pgx.NamedArgs{"since": time.Unix(0, 0), "late": time.Minute, "rows": 100})
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		plan := strings.Join(lines, "\n")
		loops := strings.Contains(plan, "Nested Loop") && strings.Contains(plan, "Hash") // a loop over indexes alone is fine
		if loops || strings.Contains(plan, "Merge") {
			t.Errorf("%s %s:\n%s", i.Number, i.Name, plan)
		}
	}
}
