package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// moment is a read of several statements, each of which needs what the one
// before it found, that all see the same moment. Without it a card could show
// the input of before an edit with the digest of after it, and whoever
// approves that digest would have seen something else (I5).
//
// It takes no trip of its own: the first begins it, the last ends it.
type moment struct {
	conn  *pgxpool.Conn
	begun bool
	done  bool
}

// atOneMoment runs fn on a connection of its own.
func (s *Store) atOneMoment(ctx context.Context, fn func(*moment) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return unavailable(err)
	}
	q := &moment{conn: conn}
	defer q.end()
	return unavailable(fn(q))
}

// trip sends statements in one round trip and runs their callbacks in order.
func (q *moment) trip(ctx context.Context, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	if !q.begun {
		b.Queue("begin isolation level repeatable read read only")
		q.begun = true
	}
	queue(b)
	return q.conn.SendBatch(ctx, b).Close()
}

// last is a trip after which nothing more is read.
func (q *moment) last(ctx context.Context, queue func(*pgx.Batch)) error {
	err := q.trip(ctx, func(b *pgx.Batch) {
		queue(b)
		b.Queue("commit")
	})
	q.done = err == nil
	return err
}

// end gives the connection back, outside of any transaction. One that cannot
// even leave it is closed by the pool.
func (q *moment) end() {
	defer q.conn.Release()
	if q.begun && !q.done && !q.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = q.conn.Exec(ctx, "rollback")
	}
}
