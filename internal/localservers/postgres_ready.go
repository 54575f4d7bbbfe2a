package localservers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ready waits until the server answers and has its database.
func (p *Postgres) ready(ctx context.Context, port int) error {
	ctx, cancel := p.child.whileAlive(ctx)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.makeDatabase(ctx, port)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// makeDatabase makes the database "countersign" unless it exists.
func (p *Postgres) makeDatabase(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", postgresUser, address(port)))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// Another server may have taken the port: then this one is about to end.
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != p.data {
		return fmt.Errorf("another server answers: %s", data)
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+postgresDatabase)
	var failed *pgconn.PgError
	if errors.As(err, &failed) && (failed.Code == "42P04" || failed.Code == "25006") { // it exists, or comes from the primary
		return nil
	}
	return err
}
