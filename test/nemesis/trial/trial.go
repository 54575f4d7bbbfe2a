package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/test/nemesis/check"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/inject"
	"github.com/countersign/countersign/test/nemesis/projection"
	"github.com/countersign/countersign/test/nemesis/schedule"
	"github.com/countersign/countersign/test/nemesis/site"
	"github.com/countersign/countersign/test/nemesis/users"
)

// trial is one run under way.
type trial struct {
	Config
	site     *site.Site
	bus      *bus.Bus
	history  *history.Log
	began    time.Time // of the history's clock
	world    *users.World
	injector *inject.Injector
	redis    *projection.Watcher
	plan     []schedule.Fault

	saying sync.Mutex // what is said comes from several goroutines, a line at a time

	mu     sync.Mutex
	found  []check.Violation
	first  time.Duration // when the first was found
	stalls []check.Stall
	stop   context.CancelFunc // of the load
}

// startTime bounds a start.
const startTime = 2 * time.Minute

// Run makes a run and gives its report. The error is of what kept it from
// being one; violations are in the report.
func Run(ctx context.Context, c Config) (report Report, err error) {
	t := &trial{Config: c.withDefaults()}
	t.plan = schedule.Plan(t.Seed, t.Load, t.Emphasis)
	t.announce()
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.start(ctx); err != nil {
		return report, fmt.Errorf("start: %w", err)
	}
	if err := t.work(ctx); err != nil {
		return report, err
	}
	return t.judge(ctx)
}

func (t *trial) announce() {
	fmt.Fprintf(t.Out, "seed %d, %s of load, in %s\n", t.Seed, t.Load, t.Dir)
	for _, fault := range t.plan {
		fmt.Fprintf(t.Out, "  %s\n", fault)
	}
}

func (t *trial) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	t.say("start", "Postgres, NATS, Redis, a tool server, two of each service")
	if t.site, err = site.Start(ctx, site.Options{Dir: t.Dir, Programs: t.Programs, Model: users.Model(t.Seed)}); err != nil {
		return err
	}
	if t.bus, err = bus.Connect(t.site.NATSURL(), "nemesis", slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	t.began = time.Now()
	if t.history, err = history.Create(filepath.Join(t.Dir, "history.jsonl")); err != nil {
		return err
	}
	if t.world, err = users.New(ctx, t.site, t.bus, t.history, users.Options{Seed: t.Seed, Conversations: t.Users, Load: t.Load}); err != nil {
		return err
	}
	t.injector = inject.New(t.site, t.bus, t.history.Now)
	t.redis = projection.New(t.site.RedisAddress, t.injector.RedisForgets)
	return nil
}

// work is the load with its faults, the healing, and the way to rest.
func (t *trial) work(ctx context.Context) error {
	load, stop := context.WithTimeout(ctx, t.Load)
	defer stop()
	t.stop = stop
	users, enough := context.WithCancel(ctx)
	defer enough()
	var all, watching sync.WaitGroup
	watch, unwatch := context.WithCancel(ctx)
	defer unwatch()
	watching.Go(func() { t.redis.Run(watch) })
	watching.Go(func() { t.look(watch) })
	watching.Go(func() { t.tell(watch) })
	watching.Go(func() { t.feel(watch) })
	watching.Go(func() { t.hasten(watch) })
	all.Go(func() { t.world.Run(users, load) })
	t.injector.Run(load, t.plan)
	<-load.Done()

	t.say("heal", "every fault is undone")
	err := t.heal(ctx)
	if err == nil && !t.violatedYet() { // what is broken may never come to rest
		err = t.rest(ctx, enough, &all)
	}
	enough()
	all.Wait()
	unwatch()
	watching.Wait()
	return err
}

// healTime bounds the healing: a Postgres that was killed recovers within it.
const healTime = 90 * time.Second

func (t *trial) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healTime)
	defer cancel()
	if err := t.site.Heal(ctx); err != nil {
		return fmt.Errorf("heal: %w", err)
	}
	return nil
}

// violated notes what cannot be. The load ends: what shows it is fresh.
func (t *trial) violated(v check.Violation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.found) == 0 {
		t.first = t.history.Now()
		t.say("found", fmt.Sprintf("after %s: %s", t.history.Now().Round(100*time.Millisecond), v.Invariant))
	}
	t.found = append(t.found, v)
	t.stop()
}

func (t *trial) violatedYet() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.found) > 0
}

func (t *trial) say(phase, text string) {
	at := time.Duration(0)
	if t.history != nil {
		at = t.history.Now()
	}
	t.saying.Lock()
	defer t.saying.Unlock()
	fmt.Fprintf(t.Out, "%7.1fs  %-6s %s\n", at.Seconds(), phase, text)
}

func (t *trial) close() error {
	var errs []error
	if t.world != nil {
		t.world.Close()
	}
	if t.bus != nil {
		t.bus.Close()
	}
	if t.site != nil {
		errs = append(errs, t.site.Close())
	}
	if t.history != nil {
		errs = append(errs, t.history.Close())
	}
	return errors.Join(errs...)
}
