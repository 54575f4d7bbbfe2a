package localservers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopOrphan stops a postmaster that still serves the data folder. It is
// called with the folder held, so whoever started that postmaster is dead,
// and the postmaster is most likely just shutting down.
//
// A postmaster.pid whose process is not a postmaster of this folder is
// removed: Postgres itself would take a reused process id for a living
// postmaster and refuse to start.
func (p *Postgres) stopOrphan(ctx context.Context) error {
	file := filepath.Join(p.data, "postmaster.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || !runsIn(pid, p.data) {
		return os.Remove(file)
	}
	for _, s := range postgresStop {
		if err := syscall.Kill(pid, s.signal.(syscall.Signal)); err != nil {
			break
		}
		if waitUntil(ctx, s.within, func() bool { return !runsIn(pid, p.data) }) {
			return nil
		}
	}
	if runsIn(pid, p.data) {
		return fmt.Errorf("a Postgres left behind (pid %d) still serves %s and does not stop: end it (kill -9 %d)", pid, p.data, pid)
	}
	return nil
}

// waitUntil polls a condition of another process, which sends no signal.
func waitUntil(ctx context.Context, within time.Duration, holds func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return holds()
		case <-tick.C:
		}
	}
	return true
}
