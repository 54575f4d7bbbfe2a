package store

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// errStalePrimary refuses a server that has been replaced: a standby was
// promoted since, and what is written here would be lost.
var errStalePrimary = errors.New("this server is of an older timeline than another that was seen: it has been replaced")

// place is where a server stands in the history of the data: which cluster it
// is of, and after how many promotions. The zero place is not known.
type place struct {
	system   string
	timeline int64
}

// selectPlace reads the place of a server that takes writes; a standby has
// none yet. The timeline is that of the log's end, since the control file
// learns of a promotion only with the checkpoint after it.
const selectPlace = `
	select (select system_identifier::text from pg_control_system()),
	       case when pg_is_in_recovery() then '0'
	       else (('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint)::text end`

// placeOf asks a server. One that does not say, since its owner took the right
// to ask away, or it has no such thing, has the zero place.
func placeOf(ctx context.Context, conn *pgconn.PgConn) (place, error) {
	results, err := conn.Exec(ctx, selectPlace).ReadAll()
	if pg, refused := errors.AsType[*pgconn.PgError](err); refused && !transientCode(pg.Code) {
		return place{}, nil
	}
	if err != nil {
		return place{}, err
	}
	row := results[0].Rows[0]
	timeline, err := strconv.ParseInt(string(row[1]), 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("read the timeline: %w", err)
	}
	return place{string(row[0]), timeline}, nil
}

// lineage knows the newest place that was seen, and refuses older ones.
type lineage struct {
	mu      sync.Mutex
	newest  place // older ones are refused
	present place // of which all connections in use are
}

// sees takes the place of a server that was reached, and tells whether it is
// newer than all before, other than the first. The error refuses the server.
func (l *lineage) sees(p place) (moved bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch known := l.newest; {
	case p.timeline == 0 || p == known:
		return false, nil
	case p.system == known.system && p.timeline < known.timeline:
		return false, errStalePrimary
	default:
		// Another cluster has no order with this one: a restored backup, an
		// upgrade. Its data may be older all the same.
		l.newest = p
		if known.timeline == 0 {
			l.present = p
		}
		return known.timeline != 0, nil
	}
}

// settle says that connections to older places are gone.
func (l *lineage) settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.present = l.newest
}

// name is short, and differs between places.
func (l *lineage) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.present.timeline == 0 {
		return ""
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s.%d", l.present.system, l.present.timeline) // it never fails
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}
