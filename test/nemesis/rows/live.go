package rows

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Conn is a connection of the runner's own to a database that comes and goes.
type Conn struct{ url string }

// Live looks at a database while it is under load.
func Live(url string) Conn { return Conn{url} }

// TerminateBackends ends up to n connections of services, of whatever they do.
func (c Conn) TerminateBackends(ctx context.Context, n int) (ended int, err error) {
	err = c.query(ctx, `
		select count(*) from (
		    select pg_terminate_backend(pid) from (
		        select pid from pg_stat_activity
		         where application_name = 'countersign' and pid <> pg_backend_pid()
		         order by (state = 'idle'), random() limit $1) a) b`, &ended, n)
	return ended, err
}

// SomeCall is a call that exists, in whatever state.
type SomeCall struct {
	Tenant, Call, Topic string
	Fence, Version      int64
	Published           int
}

// SomeCalls gives up to n calls, the younger ones rather.
func (c Conn) SomeCalls(ctx context.Context, n int) ([]SomeCall, error) {
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `
		select tenant_id, call_id::text, topic_id, fence, version, published
		  from (select c.*, t.version from calls c join topics t using (tenant_id, topic_id) order by created_at desc limit 200) c
		 order by random() limit $1`, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[SomeCall])
}

// Unsafe gives those of some calls whose tool is unsafe.
func (c Conn) Unsafe(ctx context.Context, calls []string) (unsafe []SomeCall, err error) {
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `
		select tenant_id, call_id::text, topic_id, fence, 0::bigint, published
		  from calls where effect = 'unsafe' and call_id = any($1::uuid[])`, calls)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[SomeCall])
}

// Unrest says what is still under way, and how much of it; nothing at rest.
func (c Conn) Unrest(ctx context.Context) (string, error) {
	var n [6]int
	var example string
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, selectUnrest).Scan(&n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &example)
	if err != nil || n == [6]int{} {
		return "", err
	}
	return fmt.Sprintf("%d open cards, %d queued, %d started, %d live turns, %d continuations, %d topics owed; such as %s",
		n[0], n[1], n[2], n[3], n[4], n[5], example), nil
}

const selectUnrest = `
	select (select count(*) from approvals where state = 'requested'),
	       (select count(*) from calls where run = 'queued'),
	       (select count(*) from calls where run = 'started'),
	       (select count(*) from turns where streaming),
	       (select count(*) from continuations where state in ('ready', 'dispatched', 'failed')),
	       (select count(*) from topics where owed),
	       coalesce((select 'turn ' || turn_id || ' of ' || tenant_id || '/' || topic_id || ', which is ' || state
	                   from turns where open order by created_at limit 1), 'a topic')`

func (c Conn) query(ctx context.Context, query string, into any, args ...any) error {
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, query, args...).Scan(into)
}
