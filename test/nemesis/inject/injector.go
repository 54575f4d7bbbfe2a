package inject

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/test/nemesis/rows"
	"github.com/countersign/countersign/test/nemesis/schedule"
	"github.com/countersign/countersign/test/nemesis/site"
)

// Record is a fault that was done.
type Record struct {
	schedule.Fault
	Began, Ended time.Duration // by the history's clock
	Fired        bool
	Did          string // what it came to
}

func (r Record) String() string {
	return fmt.Sprintf("%s  %7.2fs to %7.2fs  %s", r.Fault, r.Began.Seconds(), r.Ended.Seconds(), r.Did)
}

// Injector does faults to one site.
type Injector struct {
	site *site.Site
	rows rows.Conn
	bus  *bus.Bus // past every proxy, for what is forged
	now  func() time.Duration

	mu         sync.Mutex
	records    []Record
	forgetting int           // faults under way that make Redis forget
	forgot     time.Duration // when the last of them ended
}

// New makes an injector; now is the history's clock.
func New(s *site.Site, b *bus.Bus, now func() time.Duration) *Injector {
	return &Injector{site: s, rows: rows.Live(s.DatabaseURL()), bus: b, now: now}
}

// Run does the plan's faults, each at its time from now on, and returns when
// the last is undone. It does not end early: what was begun is undone.
func (i *Injector) Run(ctx context.Context, plan []schedule.Fault) {
	begin := time.Now()
	var all sync.WaitGroup
	for _, fault := range plan {
		if !pause(ctx, fault.At-time.Since(begin)) {
			break
		}
		all.Go(func() { i.one(ctx, fault) })
	}
	all.Wait()
}

// one does a fault, waits its time, and undoes it.
func (i *Injector) one(ctx context.Context, fault schedule.Fault) {
	r := Record{Fault: fault, Began: i.now()}
	i.forget(fault.Kind, 1)
	did, err := i.do(ctx, fault)
	r.Ended, r.Did, r.Fired = i.now(), did, err == nil && did != ""
	if err != nil {
		r.Did = "failed: " + err.Error()
	}
	i.forget(fault.Kind, -1)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.records = append(i.records, r)
}

// forget notes the begin and the end of a fault that makes Redis forget.
func (i *Injector) forget(kind schedule.Kind, n int) {
	if kind != schedule.RedisKill && kind != schedule.RedisFlush && kind != schedule.RedisPoison {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forgetting += n
	i.forgot = i.now()
}

// Records are the faults that are over.
func (i *Injector) Records() []Record {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]Record(nil), i.records...)
}

// do does a fault for its time and says what came of it; "" when there was
// nothing to be done.
func (i *Injector) do(ctx context.Context, f schedule.Fault) (did string, err error) {
	switch f.Kind {
	case schedule.Kill, schedule.Pause, schedule.Terminate, schedule.ToolKill, schedule.NATSPause:
		return i.process(ctx, f)
	case schedule.PostgresKill, schedule.NATSKill, schedule.NATSWipe, schedule.RedisKill:
		return i.server(ctx, f)
	case schedule.Backends, schedule.RedisFlush, schedule.RedisPoison, schedule.Forge:
		return i.repeated(ctx, f)
	case schedule.ToolFails:
		return i.toolFails(ctx, f)
	}
	return i.link(ctx, f)
}

// pause waits, and tells whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// memory is how long after a fault of Redis, or of the way to it, what it
// holds may still be older than what was seen: bytes that were under way.
const memory = 3 * time.Second

// RedisForgets tells whether a fault that makes Redis forget is under way, or
// was a moment ago.
func (i *Injector) RedisForgets() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.forgetting > 0 || i.now() < i.forgot+memory && i.forgot > 0
}
