package localservers

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// standbyName is how a standby names itself, for synchronous_standby_names.
const standbyName = "standby"

// StartStandby copies a running server into an empty folder and starts the
// copy as its hot standby. Whether commits wait for it, the primary's settings
// say. Of options, Settings are the primary's own and need not be given.
func StartStandby(ctx context.Context, primary *Postgres, options PostgresOptions) (*Postgres, error) {
	// A standby refuses to start with less of some things than its primary.
	options.Settings = maps.Clone(primary.options.Settings)
	delete(options.Settings, "synchronous_standby_names")
	p := &Postgres{options: options, primary: primary}
	if err := p.Start(ctx); err != nil {
		return nil, fmt.Errorf("start a standby in %s: %w", options.Dir, err)
	}
	return p, nil
}

// copyPrimary fills a data folder with what the primary has.
func (p *Postgres) copyPrimary(ctx context.Context, dir string) error {
	from := fmt.Sprintf("host=%s port=%s user=%s application_name=%s",
		loopback, strconv.Itoa(p.primary.options.Port), postgresUser, standbyName)
	cmd := exec.CommandContext(ctx, filepath.Join(p.installed.bin, "pg_basebackup"),
		"-D", dir, "-d", from, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, postgresEnv(), p.account.attr()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, output)
	}
	return nil
}

// Promote makes a standby a primary, on a new timeline, and returns when it
// takes writes.
func (p *Postgres) Promote(ctx context.Context) error {
	var done bool
	if err := p.ask(ctx, "SELECT pg_promote(true, 60)", &done); err != nil || !done {
		return fmt.Errorf("promote the standby: done %t: %w", done, err)
	}
	return nil
}

// Set changes a setting of the running server.
func (p *Postgres) Set(ctx context.Context, name, value string) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err = conn.Exec(ctx, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value)); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	var done bool
	return p.ask(ctx, "SELECT pg_reload_conf()", &done)
}

// ask reads a single value.
func (p *Postgres) ask(ctx context.Context, query string, value any) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return conn.QueryRow(ctx, query).Scan(value)
}

// EitherURL is the address of the database "countersign" on whichever of two
// servers takes writes.
func EitherURL(a, b *Postgres) string {
	u := url.URL{Scheme: "postgres", User: url.User(postgresUser), Path: "/" + postgresDatabase,
		Host: address(a.options.Port) + "," + address(b.options.Port), RawQuery: "sslmode=disable&target_session_attrs=read-write"}
	return u.String()
}
