package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// The row writes of the limit, as pgbench scripts.
const (
	limitSchema = `
		drop table if exists bench_rows, bench_outbox;
		create table bench_rows (id int primary key, version int not null default 0, body text not null) with (fillfactor = 70);
		insert into bench_rows select n, 0, repeat('x', 1900) from generate_series(1, 20000) n;
		create table bench_outbox (id bigint generated always as identity primary key, kind text not null, key text not null);
		alter table bench_rows alter column body set storage plain`

	limitRMW = `\set id random(1, 20000)
begin;
select version from bench_rows where id = :id for update;
update bench_rows set version = version + 1, body = repeat('y', 1900) where id = :id;
insert into bench_outbox (kind, key) values ('run', 'k' || :id);
commit;
`
	limitInsert = `insert into bench_outbox (kind, key) values ('run', 'k');
`
)

// measureLimit asks pgbench for the two rates at c clients.
func measureLimit(ctx context.Context, url string, c int, d time.Duration) (Limit, error) {
	dir, err := os.MkdirTemp("", "countersign-limit-")
	if err != nil {
		return Limit{}, err
	}
	defer os.RemoveAll(dir)
	if err := runPG(ctx, "psql", url, "-v", "ON_ERROR_STOP=1", "-q", "-c", limitSchema); err != nil {
		return Limit{}, err
	}
	rmw, err := pgbench(ctx, url, dir, "rmw.sql", limitRMW, c, d)
	if err != nil {
		return Limit{}, err
	}
	ins, err := pgbench(ctx, url, dir, "insert.sql", limitInsert, c, d)
	if err != nil {
		return Limit{}, err
	}
	err = runPG(ctx, "psql", url, "-q", "-c", `drop table bench_rows, bench_outbox`)
	return Limit{Clients: c, RMW: rmw, Insert: ins, PerSecond: 1 / (2/rmw + 2/ins)}, err
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

func pgbench(ctx context.Context, url, dir, name, script string, c int, d time.Duration) (float64, error) {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return 0, err
	}
	program, err := findPG("pgbench")
	if err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-f", file, "-c", strconv.Itoa(c), "-j", strconv.Itoa(min(c, 2)),
		"-T", strconv.Itoa(max(1, int(d.Seconds()))), url).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	match := tps.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("pgbench said no rate: %s", out)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}

func runPG(ctx context.Context, name, url string, args ...string) error {
	program, err := findPG(name)
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, append(args, url)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// findPG looks on PATH and in the distribution's folders.
func findPG(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		return "", errors.New(name + " is not here; it comes with Postgres: apt-get install postgresql")
	}
	return found[len(found)-1], nil
}
