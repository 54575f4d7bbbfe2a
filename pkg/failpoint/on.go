//go:build failpoints

package failpoint

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Variable arms points.
const Variable = "COUNTERSIGN_FAIL"

// state is what this process was told, and how often it came by.
var state = struct {
	mu    sync.Mutex
	armed map[Point]arming
	hits  map[Point]int
}{armed: start(), hits: map[Point]int{}}

func start() map[Point]arming {
	armed, err := parse(os.Getenv(Variable))
	if err != nil {
		say("%s: %v", Variable, err)
		os.Exit(2)
	}
	say("fail points are compiled in, %d armed", len(armed))
	return armed
}

// say writes at once: what comes next may be the end of the process.
func say(format string, args ...any) {
	_, _ = os.Stderr.WriteString("failpoint: " + fmt.Sprintf(format, args...) + "\n")
}

// Hit is the place of a point. The error is what the place fails with; nil
// where no point is armed.
func Hit(ctx context.Context, p Point) error {
	if a, n, fires := come(p); fires {
		say("%s fires: %s at hit %d", p, a, n)
		return a.happen(ctx, p)
	}
	return nil
}

// BeforeCommit is [Hit] for the gap before a transaction's commit.
func BeforeCommit(ctx context.Context, transaction string) error {
	return Hit(ctx, of(transaction, beforeCommit))
}

// AfterCommit is [Hit] for the gap after a transaction's commit.
func AfterCommit(ctx context.Context, transaction string) error {
	return Hit(ctx, of(transaction, afterCommit))
}

func of(transaction, gap string) Point {
	return Point(strings.ReplaceAll(transaction, " ", "-") + gap)
}

// come counts a hit.
func come(p Point) (arming, int, bool) {
	state.mu.Lock()
	defer state.mu.Unlock()
	a, armed := state.armed[p]
	if !armed {
		return arming{}, 0, false
	}
	state.hits[p]++
	return a, state.hits[p], a.fires(state.hits[p])
}

func (a arming) happen(ctx context.Context, p Point) error {
	switch a.action {
	case kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more happens here
	case stop:
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(10 * time.Millisecond) // the other threads may be stopped a moment before this one
		say("%s goes on", p)
	case delay:
		select {
		case <-time.After(a.pause):
		case <-ctx.Done():
		}
	case panics:
		panic(fmt.Sprintf("fail point %s", p))
	default:
		return fmt.Errorf("%s: %w", p, ErrInjected)
	}
	return nil
}
