package store

import (
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowwise is a statement that writes a batch's rows of one table: $1 is the
// tenant, and each parameter after it a column, an array that the statement
// unnests. It has two forms, made of one text.
//
// Most of what it costs to write one row by the form with arrays is set-up:
// the arrays are unnested into a subquery, which is hashed and joined, and
// each of these steps begins with a description of all columns. So a lone row,
// which is what a node that is not busy writes, has a form without all that:
// the row's values stand in place of the arrays, and nothing is left but the
// lookup by key and the write. From two rows on, one statement for all is
// cheaper than one for each.
type rowwise struct{ all, one string }

// writesRows makes a rowwise statement of the form with arrays.
func writesRows(all string) rowwise {
	return rowwise{all, ofOne(unnested.ReplaceAllString(all, "$1::$2$3"))}
}

// ofOne is a lookup by an array of keys as one by a single key.
func ofOne(lookup string) string { return ofKeys.ReplaceAllString(lookup, "= $1::$2") }

var (
	unnested = regexp.MustCompile(`unnest\((\$\d+)::([a-z]+)\[\](?:(::[a-z]+)\[\])?\)`)
	ofKeys   = regexp.MustCompile(`= any\((\$\d+)::([a-z]+)\[\]\)`)
)

// queue adds the rows to a batch, with what is to be done with those that the
// statement returns; nil when it returns none.
func (s rowwise) queue(b *pgx.Batch, returned func(pgx.Rows) error, tenant any, columns ...any) {
	sql, args := s.all, append([]any{tenant}, columns...)
	if rowsOf(columns[0]) == 1 {
		sql = s.one
		for i, column := range args[1:] {
			args[i+1] = firstOf(column)
		}
	}
	q := b.Queue(sql, args...)
	if returned != nil {
		q.Query(returned)
	}
}

// rowsOf is how many rows a column has.
func rowsOf(column any) int {
	switch c := column.(type) {
	case []string:
		return len(c)
	case []time.Time:
		return len(c)
	}
	panic(fmt.Sprintf("a first column of %T", column))
}

// firstOf is the value of a lone row.
func firstOf(column any) any {
	switch c := column.(type) {
	case []string:
		return c[0]
	case [][]byte:
		return c[0]
	case []bool:
		return c[0]
	case []int:
		return c[0]
	case []int64:
		return c[0]
	case []time.Time:
		return c[0]
	case []*time.Time:
		return c[0]
	case []*string:
		return c[0]
	case []*int64:
		return c[0]
	}
	panic(fmt.Sprintf("a column of %T", column))
}
