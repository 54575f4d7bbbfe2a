package store

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// errNotReplicated says that a commit is on this server's disk and may not be
// on its standby's: somebody broke off its waiting, which Postgres calls a
// success with a warning. It is a commit of unknown outcome, to be asked for
// again.
var errNotReplicated = errors.New("the commit may not have reached the standby")

// unreplicated is where a connection keeps that it was warned.
const unreplicated = "countersign.unreplicated"

// onNotice hears what the server says beside its answers. No statement of
// ours makes a warning of this code; a commit that did not wait for its
// standby does.
func onNotice(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if notice.SeverityUnlocalized == "WARNING" && notice.Code == "01000" {
		conn.CustomData()[unreplicated] = true
	}
}

// replicated tells whether the commit that was just made kept its promise.
func replicated(conn *pgconn.PgConn) error {
	data := conn.CustomData()
	if _, warned := data[unreplicated]; warned {
		delete(data, unreplicated)
		return errNotReplicated
	}
	return nil
}
