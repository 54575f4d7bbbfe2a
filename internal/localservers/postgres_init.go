package localservers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// initialize makes the data folder if there is none. It is made under another
// name and then renamed, so that a crash in between never leaves half of one.
func (p *Postgres) initialize(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(p.data, "PG_VERSION"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := p.data + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := p.account.own(unfinished); err != nil {
		return err
	}
	fill := p.initdb
	if p.primary != nil {
		fill = p.copyPrimary
	}
	if err := fill(ctx, unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, p.data)
}

func (p *Postgres) initdb(ctx context.Context, dir string) error {
	args := []string{
		"-D", dir, "-U", postgresUser, "--auth=trust", "--data-checksums",
		// The C locale orders text by its bytes, on every machine alike.
		"--encoding=UTF8", "--locale=C",
	}
	if p.options.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.installed.bin, "initdb"), args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, postgresEnv(), p.account.attr()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

// postgresEnv is what Postgres sees of this process's environment: nothing
// that would change what it does (PGDATA, PGPORT, a locale).
func postgresEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}
