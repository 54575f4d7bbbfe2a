package daemon_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
)

// journal notes in which order parts end.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// part needs some time to end after it was told to.
func (j *journal) part(name string, needs time.Duration) daemon.Part {
	return daemon.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(needs)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, name)
		return nil
	}}
}

func TestPartsStopInReverseOrderEachAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		log := daemon.NewLogger(t.Output(), "json", "info")
		err := daemon.Run(ctx, log, time.Minute, j.part("store", 0), j.part("runs", 3*time.Second), j.part("http", 9*time.Second))
		if want := []string{"http", "runs", "store"}; err != nil || !slices.Equal(j.lines, want) {
			t.Errorf("ended %v with %v, want %v", j.lines, err, want)
		}
	})
}

func TestWhoDoesNotStopInTimeIsNamedAndLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		log := daemon.NewLogger(t.Output(), "json", "info")
		err := daemon.Run(ctx, log, 10*time.Second, j.part("quick", 0), j.part("slow", time.Hour))
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("Run took %v of 10s grace", took)
		}
		if !errors.Is(err, daemon.ErrStoppedTooLate) || !strings.HasSuffix(err.Error(), ": slow") {
			t.Errorf("Run = %v, want ErrStoppedTooLate naming slow alone", err)
		}
		time.Sleep(time.Hour) // the bubble's clock: its goroutines must end with it
	})
}

func TestAPartThatEndsStopsTheOthers(t *testing.T) {
	t.Parallel()
	cause := errors.New("the disk is full")
	for _, c := range []struct {
		name string
		ends error
		want string
	}{
		{"with an error", cause, "broken: the disk is full"},
		{"without one", nil, "broken ended without being told to"},
	} {
		var j journal
		broken := daemon.Part{Name: "broken", Run: func(context.Context) error { return c.ends }}
		log := daemon.NewLogger(t.Output(), "json", "info")
		err := daemon.Run(t.Context(), log, time.Minute, j.part("store", 0), broken)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: Run = %v, want %q", c.name, err, c.want)
		}
		if !slices.Equal(j.lines, []string{"store"}) {
			t.Errorf("%s: the others ended as %v", c.name, j.lines)
		}
	}
}
