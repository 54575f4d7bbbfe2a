package trial

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/test/nemesis/check"
	"github.com/countersign/countersign/test/nemesis/history"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/projection"
	"github.com/countersign/countersign/test/nemesis/rows"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// look asks the rows and Redis again and again for what must hold at any
// moment, and brings back what has ended by itself.
func (t *trial) look(ctx context.Context) {
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(400 * time.Millisecond):
		}
		if err := t.site.Surprises(); err != nil {
			t.violated(check.Violation{Invariant: "every process runs until it is stopped", Detail: err.Error()})
		}
		for _, back := range t.redis.Backs() {
			t.violated(check.Violation{Invariant: "I8: a projection never goes back", Detail: back.String(), Tenant: back.Tenant, Topic: back.Topic})
			return
		}
		if n%3 == 2 && t.twice(ctx) || n%6 == 5 && t.verified(ctx) {
			return
		}
	}
}

// hasten has a live turn of the model loop lost soon after its worker was last
// heard of, as the leases are of runs in a trial.
func (t *trial) hasten(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
			_ = rows.LoseStreams(ctx, t.site.DatabaseURL(), approval.StreamLease-schedule.Lease) // the database may be away
		}
	}
}

// verified asks the rows for what must hold at any moment, and tells whether
// something does not; a database that is away cannot be asked now.
func (t *trial) verified(ctx context.Context) (violated bool) {
	found, err := t.site.Store.Verify(ctx, store.Scope{Timeout: 20 * time.Second})
	return err == nil && t.blame(found)
}

// restful asks the rows for what must hold at rest, until what follows a
// commit within moments has followed the last one, too.
func (t *trial) restful(ctx context.Context) error {
	for until := time.Now().Add(settleTime); ; time.Sleep(200 * time.Millisecond) {
		found, err := t.site.Store.Verify(ctx, store.Scope{AtRest: true, Timeout: 20 * time.Second})
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		if len(found) == 0 || time.Now().After(until) {
			t.blame(found)
			return nil
		}
	}
}

func (t *trial) blame(found []store.Violation) (violated bool) {
	for _, v := range found {
		t.violated(check.Violation{
			Invariant: v.Invariant.Number + ": " + v.Invariant.Sentence, Detail: v.Invariant.Name + ": " + v.Detail,
			Tenant: string(v.Tenant), Topic: string(v.Topic), Turn: string(v.Turn), Call: string(v.Call),
		})
	}
	return len(found) > 0
}

// twice looks whether an unsafe tool did anything twice.
func (t *trial) twice(ctx context.Context) (violated bool) {
	effects, err := ledger.Read(t.site.Ledger)
	if err != nil {
		return false
	}
	times, again := map[string]int{}, []string{}
	for _, e := range effects {
		if times[e.Call]++; times[e.Call] == 2 {
			again = append(again, e.Call)
		}
	}
	unsafe, err := rows.Live(t.site.DatabaseURL()).Unsafe(ctx, again)
	if err != nil {
		return false
	}
	for _, c := range unsafe {
		t.violated(check.Violation{Invariant: check.UnsafeOnce, Detail: fmt.Sprintf("the ledger has %d", times[c.Call]),
			Tenant: c.Tenant, Topic: c.Topic, Call: c.Call})
	}
	return len(unsafe) > 0
}

// stall is how late the runner itself may be before it says that the machine
// stood still: less than what a worker keeps of its lease.
const stall = time.Second

// feel notes when the machine had no time.
func (t *trial) feel(ctx context.Context) {
	for last := t.history.Now(); ; last = t.history.Now() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		if now := t.history.Now(); now-last > stall {
			t.mu.Lock()
			t.stalls = append(t.stalls, check.Stall{From: last, To: now})
			t.mu.Unlock()
		}
	}
}

// tell prints a line about the load every few seconds.
func (t *trial) tell(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if t.history.Now() > t.Load+5*time.Second {
			continue
		}
		n := t.history.Counts()
		fired := 0
		for _, r := range t.injector.Records() {
			if r.Fired {
				fired++
			}
		}
		t.say("load", fmt.Sprintf("%d faults of %d, %d conversations, %d requests done, %d refused, %d unknown",
			fired, len(t.plan), t.world.Conversations(), n[history.OK], n[history.Fail], n[history.Unknown]))
	}
}

// rest waits until users and system are done with everything, and says what
// is stranded if they are not in time.
func (t *trial) rest(ctx context.Context, enough context.CancelFunc, users *sync.WaitGroup) error {
	ctx, cancel := context.WithTimeout(ctx, t.Rest)
	defer cancel()
	t.say("rest", "users finish what they began")
	done := make(chan struct{})
	go func() {
		users.Wait()
		close(done)
	}()
	live := rows.Live(t.site.DatabaseURL())
	unrest, err := "", error(nil)
	for ended := false; ctx.Err() == nil; {
		select {
		case <-done:
			ended = true
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
		if unrest, err = live.Unrest(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("ask the rows what is under way: %w", err)
		}
		if ended && unrest == "" {
			return nil
		}
		if ended {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	enough()
	if unrest == "" {
		unrest = "nothing in the rows; a conversation does not come to its end"
	}
	t.violated(check.Violation{Invariant: "I8: nothing is stranded", Detail: fmt.Sprintf("%s after the faults healed there are %s", t.Rest, unrest)})
	return nil
}

// settleTime is how long what follows a commit may take at rest, and
// unheardTime how long an entry lives whose topic's signal nobody heard.
const (
	settleTime  = 10 * time.Second
	unheardTime = 62 * time.Second
)

// entryTime is how long Redis may differ from the rows at rest. Only where a
// fault may have lost a signal is it as long as entries live.
func (t *trial) entryTime() time.Duration {
	for _, r := range t.injector.Records() {
		if r.Kind != schedule.Delay {
			return unheardTime
		}
	}
	return settleTime
}

// projections compares what windows and Redis show with the rows.
func (t *trial) projections(ctx context.Context, topics []rows.Topic) error {
	versions := map[[2]string]rows.Topic{}
	for _, topic := range topics {
		versions[[2]string{topic.Tenant, topic.ID}] = topic
	}
	until := time.Now().Add(settleTime)
	for _, s := range t.world.Streams() {
		for {
			last, events, back := s.Last()
			row, there := versions[[2]string{s.Tenant, s.Topic}]
			if back != "" {
				t.violated(check.Violation{Invariant: "I8: a stream never goes back", Detail: back, Tenant: s.Tenant, Topic: s.Topic})
				break
			}
			if !there || events > 0 && last.Version == row.Version {
				break
			}
			if time.Now().After(until) {
				t.violated(check.Violation{Invariant: "I8: every open stream equals Postgres", Tenant: s.Tenant, Topic: s.Topic,
					Detail: fmt.Sprintf("after %s at rest it shows version %d after %d events, the row is %d", settleTime, last.Version, events, row.Version)})
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	until = time.Now().Add(t.entryTime())
	for {
		differs, err := projection.Differs(t.site.RedisAddress(), topics)
		if err != nil || differs == "" {
			return err
		}
		if time.Now().After(until) || ctx.Err() != nil {
			t.violated(check.Violation{Invariant: "I8: Redis equals Postgres", Detail: differs})
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}
