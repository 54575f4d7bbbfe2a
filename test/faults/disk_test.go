//go:build mount

package faults

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/store"
)

// The disk of Postgres is full, for the tables and for the log. Requests get
// 503; with space again everything that was acknowledged is there. A small
// disk of one's own takes the right to mount: "make faults" runs it, as root.
func TestFault44TheDiskIsFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 256<<20)
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	postgres, err := localservers.StartPostgres(ctx, localservers.PostgresOptions{Dir: disk,
		Settings: map[string]string{"max_wal_size": "48MB", "min_wal_size": "32MB", "max_connections": "100"}})
	must(t, err)
	t.Cleanup(func() { _ = postgres.Kill() })
	must(t, store.Migrate(t.Context(), postgres.URL()))
	d := testcluster.On(t, postgres.URL())
	start(d)
	w := newTraffic(t, d).start(3)
	w.goesOn(5)
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	useUp(t, postgres.URL())
	w.isRefused(3)
	must(t, os.Remove(ballast))
	select {
	case <-postgres.Gone(): // it could not write its log, and ended
		must(t, postgres.Kill())
		must(t, postgres.Start(t.Context()))
	default:
	}
	w.goesOn(10)
	w.keepsItsPromises()
}

// smallDisk mounts a file system of so many bytes in memory.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := testservers.Dir(t)
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "mode=755,size="+strconv.Itoa(size), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a small disk (run this as root): %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fillDisk writes a file until there is no space.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	must(t, err)
	defer file.Close()
	for block := make([]byte, 64<<10); err == nil; {
		_, err = file.Write(block)
	}
}

// useUp writes rows until the server cannot any more, since it has some space
// set aside.
func useUp(t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	must(t, err)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testcluster.Deadline)
	defer cancel()
	for err == nil {
		_, err = db.ExecContext(ctx, `create table if not exists ballast (t text); insert into ballast select repeat(md5(random()::text), 1000) from generate_series(1, 100)`)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("the disk does not get full")
	}
}
