package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// bounds end whatever waits for a database that fell silent: one that is
// paused, or that a network swallows, neither answers nor refuses, and its own
// timeouts do not help who waits for them. It is a tracer only because that is
// where pgx lets a statement's context be replaced.
type bounds struct {
	acquire   time.Duration // for a free connection
	statement time.Duration // for one statement or one batch, and all of its rows
}

// usual is more than the server's own timeouts, which say what was wrong.
var usual = bounds{acquire: 5 * time.Second, statement: 12 * time.Second}

type boundKey struct{}

func within(ctx context.Context, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(ctx, d)
	return context.WithValue(ctx, boundKey{}, cancel)
}

func over(ctx context.Context) {
	if cancel, ok := ctx.Value(boundKey{}).(context.CancelFunc); ok {
		cancel()
	}
}

func (b bounds) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return within(ctx, b.acquire)
}

func (bounds) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	over(ctx)
}

func (b bounds) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return within(ctx, b.statement)
}

func (bounds) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { over(ctx) }

func (b bounds) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return within(ctx, b.statement)
}

func (bounds) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (bounds) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { over(ctx) }
