package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

// I3: Postgres dies by kill -9 while people decide. Every decision that was
// acknowledged is there after the restart, and one that was not can be sent
// again under its id and is applied once.
func TestI3AcknowledgedDecisionsSurvivePostgres(t *testing.T) {
	t.Parallel()
	postgres := testservers.PrivatePostgres(t)
	if err := Migrate(t.Context(), postgres.URL()); err != nil {
		t.Fatal(err)
	}
	nodes := [2]*Store{openAt(t, postgres.URL()), openAt(t, postgres.URL())}
	if err := nodes[0].EnsureTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	tool := putTool(t, nodes[0], "delete_file", model.EffectUnsafe)
	const cards = 120
	var decisions [cards]model.Decision
	for i := range cards {
		out := register(t, nodes[i%2], registration(fmt.Sprintf("t%d", i), asking(tool, "a")))
		decisions[i] = verdict(out.Turn.Calls[0], i%3 > 0, fmt.Sprint("p", i))
	}
	acknowledged := decideWhile(t, nodes, decisions[:], func() {
		if err := postgres.Kill(); err != nil {
			t.Error(err)
		}
		if err := postgres.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for i, d := range decisions {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := decideUntilAnswered(ctx, nodes[0], d)
		cancel()
		if err != nil {
			t.Fatalf("decision %d again: %v", i, err)
		}
		if acknowledged[i] && out.Result != model.DecisionAlreadyApplied {
			t.Errorf("decision %d was acknowledged, and after the crash it is %s", i, out.Result)
		}
	}
	if n := scalar[int](t, nodes[0], `select count(*) from decisions`); n != cards {
		t.Errorf("%d decisions for %d cards", n, cards)
	}
	requireConsistent(t, nodes[0])
}

// decideWhile sends all decisions from eight goroutines, calls disturb when a
// third of them are answered, and tells which were acknowledged.
func decideWhile(t *testing.T, nodes [2]*Store, decisions []model.Decision, disturb func()) []bool {
	t.Helper()
	var mu sync.Mutex
	acknowledged, answered := make([]bool, len(decisions)), 0
	var once sync.Once
	var disturbed sync.WaitGroup
	atOnce(8, func(worker int) {
		for i := worker; i < len(decisions); i += 8 {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			_, err := nodes[i%2].Decide(ctx, tenant, decisions[i])
			cancel()
			mu.Lock()
			acknowledged[i] = err == nil
			answered++
			due := answered > len(decisions)/3
			mu.Unlock()
			if due {
				once.Do(func() { disturbed.Go(disturb) })
			}
		}
	})
	disturbed.Wait()
	return acknowledged
}

func decideUntilAnswered(ctx context.Context, s *Store, d model.Decision) (Decided, error) {
	for {
		out, err := s.Decide(ctx, tenant, d)
		if err == nil || ctx.Err() != nil {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The status that a list is filtered by in SQL is the one that the rules
// derive, for every combination of counters.
func TestTheStatusInSQLIsThatOfTheRules(t *testing.T) {
	t.Parallel()
	s := open(t)
	for bits := range 64 {
		for _, last := range []model.TopicStatus{"", model.TopicDone, model.TopicAborted, model.TopicError} {
			on := func(n int) int { return bits >> n & 1 }
			topic := model.Topic{Last: last, Counters: model.TopicCounters{
				Streaming: on(0), Awaiting: on(1), Attention: on(2), Executing: on(3), Continuing: on(4), Failed: on(5)}}
			got := scalar[string](t, s, `select `+topicStatus+` from (values ($1::int, $2::int, $3::int, $4::int, $5::int, $6::int, $7::text))
				as t (streaming, awaiting, attention, executing, continuing, failed, last)`,
				on(0), on(1), on(2), on(3), on(4), on(5), string(last))
			if want := topic.Status(); got != string(want) {
				t.Errorf("%+v, last %q: in SQL %s, by the rules %s", topic.Counters, last, got, want)
			}
		}
	}
}
