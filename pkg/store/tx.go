package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
)

// tx is a transaction in as few round trips as it has dependencies: the first
// trip begins it, and the last commits it, each together with statements.
type tx struct {
	name  string
	conn  *pgxpool.Conn
	begun bool
	done  bool
}

// transact runs fn in a transaction on a connection of pool. Deadlocks,
// serialization failures and lock timeouts run the whole of it again, a
// bounded number of times. An fn that returns without commit wrote nothing.
//
// fn's statements go by the context that it is given, which ends by the
// transaction's own clock and not with the caller's: a request that is
// cancelled never cancels a commit.
func transact(caller context.Context, pool *pgxpool.Pool, name string, fn func(context.Context, *tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), commitTimeout)
	defer cancel()
	var err error
	for n := range 4 {
		if n > 0 {
			pause(n)
		}
		if err = once(ctx, pool, name, fn); err == nil || !mustRepeat(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func once(ctx context.Context, pool *pgxpool.Pool, name string, fn func(context.Context, *tx) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	t := &tx{name: name, conn: conn}
	defer t.end()
	return fn(ctx, t)
}

// trip sends statements in one round trip and runs their callbacks in order.
func (t *tx) trip(ctx context.Context, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	if !t.begun {
		b.Queue("begin")
		t.begun = true
	}
	queue(b)
	return t.conn.SendBatch(ctx, b).Close()
}

// commit sends the last statements together with the commit.
func (t *tx) commit(ctx context.Context, queue func(*pgx.Batch)) error {
	if err := failpoint.BeforeCommit(ctx, t.name); err != nil {
		return err
	}
	err := t.trip(ctx, func(b *pgx.Batch) {
		queue(b)
		b.Queue("commit")
	})
	if t.done = err == nil; err != nil {
		return err
	}
	if err := replicated(t.conn.Conn().PgConn()); err != nil {
		return err
	}
	return failpoint.AfterCommit(ctx, t.name)
}

// confirm ends a transaction that has nothing to write, and whose answer rests
// on what others wrote: when it returns, that is as durable as a commit of its
// own would be.
//
// It matters where commits wait for a standby. One whose wait was broken off
// shows its rows all the same, and they are lost if the standby takes over
// before it has them: whoever is told "it was done already" must have waited
// as long as the one who did it (I3, I4).
func (t *tx) confirm(ctx context.Context, queue func(*pgx.Batch)) error {
	err := t.trip(ctx, func(b *pgx.Batch) {
		queue(b)
		b.Queue("rollback")
		b.Queue(followStandby)
	})
	if err == nil {
		err = replicated(t.conn.Conn().PgConn())
	}
	t.done = err == nil
	return err
}

// followStandby writes something that only a standby reads, and so waits until
// it has everything before it; without a synchronous standby it is nothing.
const followStandby = `
	select case when current_setting('synchronous_standby_names') <> ''
	       then pg_logical_emit_message(true, 'countersign', '')::text end`

// nothing is for a commit or a confirm without statements of its own.
func nothing(*pgx.Batch) {}

// end rolls back what was not committed. A connection that cannot even do
// that is closed by the pool.
func (t *tx) end() {
	defer t.conn.Release()
	if t.begun && !t.done && !t.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = t.conn.Exec(ctx, "rollback")
	}
}

// errRepeat asks [transact] for another go: what was read before a lock does
// not hold any more after it.
var errRepeat = errors.New("read again under the lock")

func mustRepeat(err error) bool {
	if errors.Is(err, errRepeat) {
		return true
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock timeout
		return true
	}
	return false
}

// transient tells whether asking again can help: everything but an error that
// the database itself gave about the statement.
func transient(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return !errors.Is(err, model.ErrIllegalTransition)
	}
	return transientCode(pg.Code) || pg.Code == "23505" // a unique key that somebody else took: now it can be read
}

func transientCode(code string) bool {
	switch code[:2] {
	case "08", "25", "40", "53", "55", "57", "58":
		return true
	}
	return false
}

// unavailable marks an error after which asking later can help, for the edge
// to answer 503; any other error passes as it is.
func unavailable(err error) error {
	if err == nil || !transient(err) {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "23505" {
		return err
	}
	for _, sentinel := range model.Sentinels {
		if errors.Is(err, sentinel) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", model.ErrUnavailable, err)
}

func pause(n int) {
	time.Sleep(time.Duration(n)*10*time.Millisecond + rand.N(20*time.Millisecond))
}
