package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// warmUp is run and not counted: pools, plans and consumers settle.
const warmUp = time.Second

// measure keeps c round trips in flight for a while, each of them followed by
// the next as soon as it is done.
func measure(ctx context.Context, o Options, postgres, nats string, c int) (Level, error) {
	s, err := startSystem(ctx, postgres, nats, c, o.Log)
	if err != nil {
		return Level{}, err
	}
	defer s.stop()
	if _, err := s.keepInFlight(ctx, c, warmUp); err != nil {
		return Level{}, fmt.Errorf("warming up: %w", err)
	}
	// Within a minute autovacuum would do this: the planner gets to know the
	// tables.
	if err := runPG(ctx, "psql", postgres, "-q", "-c", "analyze"); err != nil {
		return Level{}, err
	}
	before, err := s.api.NextTransactionID(ctx)
	if err != nil {
		return Level{}, err
	}
	begin := time.Now()
	done, err := s.keepInFlight(ctx, c, o.For)
	took := time.Since(begin)
	if err != nil {
		return Level{}, err
	}
	after, err := s.api.NextTransactionID(ctx)
	if err != nil {
		return Level{}, err
	}
	if len(done) == 0 {
		return Level{}, errors.New("no round trip was completed")
	}
	return Level{
		InFlight: c, Completed: len(done), PerSecond: float64(len(done)) / took.Seconds(),
		WritesPerTrip:      float64(after-before) / float64(len(done)),
		Register:           quantile(done, func(t *trip) time.Duration { return t.registered.Sub(t.begun) }),
		Decide:             quantile(done, func(t *trip) time.Duration { return t.decided.Sub(t.registered) }),
		DecisionToStart:    quantile(done, func(t *trip) time.Duration { return t.started.Sub(t.decided) }),
		ToolToContinuation: quantile(done, func(t *trip) time.Duration { return t.continued.Sub(t.started) }),
	}, nil
}

func (s *system) keepInFlight(ctx context.Context, c int, d time.Duration) ([]*trip, error) {
	ctx, cancel := context.WithTimeout(ctx, d+30*time.Second)
	defer cancel()
	until := time.Now().Add(d)
	var mu sync.Mutex
	var done []*trip
	var failed error
	var clients sync.WaitGroup
	for range c {
		clients.Go(func() {
			for time.Now().Before(until) {
				t, err := s.goRound(ctx)
				mu.Lock()
				if err != nil {
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
				done = append(done, t)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return done, failed
}

func quantile(trips []*trip, of func(*trip) time.Duration) Quantile {
	all := make([]float64, len(trips))
	for i, t := range trips {
		all[i] = float64(of(t).Microseconds()) / 1000
	}
	slices.Sort(all)
	return Quantile{P50: all[len(all)/2], P99: all[len(all)*99/100]}
}
