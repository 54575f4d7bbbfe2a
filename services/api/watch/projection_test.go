package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers"
	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/status"
	"github.com/countersign/countersign/pkg/store"
)

// counted counts the queries for topics.
type counted struct {
	Rows
	views atomic.Int64
}

func (c *counted) TopicViews(ctx context.Context, keys []store.TopicKey) ([]store.TopicView, error) {
	c.views.Add(1)
	return c.Rows.TopicViews(ctx, keys)
}

// projecting is a node that also projects, to a Redis of its own.
type projecting struct {
	*node
	redis *localservers.Redis
	cache *status.Cache
	rows  *counted
	*Projection
}

func newProjecting(t *testing.T, n *node, redis *localservers.Redis) *projecting {
	t.Helper()
	return newSweeping(t, n, redis, never)
}

// newSweeping is newProjecting that looks for what was not signalled.
func newSweeping(t *testing.T, n *node, redis *localservers.Redis, sweep time.Duration) *projecting {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := &projecting{node: n, redis: redis, rows: &counted{Rows: n.store}}
	var err error
	if p.cache, err = status.New(redis.URL(), log, status.WithEpoch(n.store.Epoch)); err != nil {
		t.Fatal(err)
	}
	p.Projection = NewProjection(n.bus, p.rows, p.cache, log, sweep)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := p.cache.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// version is what Redis has of a topic; 0 is nothing.
func (p *projecting) version(topic string) int64 {
	found, err := p.cache.Get(context.Background(), tenant, []model.TopicID{model.TopicID(topic)})
	if err != nil {
		return 0
	}
	return found[model.TopicID(topic)].Version
}

func TestWhatIsSignalledIsProjected(t *testing.T) {
	t.Parallel()
	p := newProjecting(t, alone(t, Options{Sweep: never}), testservers.PrivateRedis(t))
	ask(t, p.store, "t1", "msg_1")
	eventually(t, "version 1 is in Redis", func() bool {
		p.publish([]store.Change{{Tenant: tenant, Topic: "t1", Version: 1}}) // the subscription may have come after the first
		return p.version("t1") == 1
	})
	say(t, p.store, "t1", "m2", "hi")
	eventually(t, "version 2 is in Redis", func() bool { return p.version("t1") == 2 })
	got, err := p.Topics(t.Context(), tenant, []model.TopicID{"nowhere", "t1"})
	if err != nil || len(got) != 1 || !strings.Contains(string(got["t1"]), `"status":"awaiting-approval"`) {
		t.Errorf("Topics = %s, %v", got, err)
	}
}

// I8: with NATS away what changed is projected by looking, once per version;
// and after it came back, what was missed meanwhile.
func TestI8WhatIsNotSignalledIsProjected(t *testing.T) {
	t.Parallel()
	nats := testservers.NATS(t)
	p := newSweeping(t, newNode(t, testservers.Database(t, store.Migrate), nats.URL(), Options{Sweep: never}),
		testservers.PrivateRedis(t), 20*time.Millisecond)
	if err := nats.Close(); err != nil {
		t.Fatal(err)
	}
	for version := range int64(3) {
		say(t, p.store, "t1", fmt.Sprint("m", version), "hi")
		eventually(t, "the version is in Redis", func() bool { return p.version("t1") == version+1 })
	}
	if n := p.rows.views.Load(); n > 3 {
		t.Errorf("three versions were read %d times", n)
	}
}

// Of several nodes one projects each signal.
func TestNodesShareTheProjecting(t *testing.T) {
	t.Parallel()
	database, nats, redis := testservers.Database(t, store.Migrate), testservers.NATS(t).URL(), testservers.PrivateRedis(t)
	a := newProjecting(t, newNode(t, database, nats, Options{Sweep: never}), redis)
	b := newProjecting(t, newNode(t, database, nats, Options{Sweep: never}), redis)
	say(t, a.store, "t0", "m", "hi")
	eventually(t, "both project", func() bool {
		a.publish([]store.Change{{Tenant: tenant, Topic: "t0", Version: 1}})
		return a.rows.views.Load() > 0 && b.rows.views.Load() > 0
	})
	const topics = 30
	for i := range topics {
		say(t, a.store, fmt.Sprint("t", i+1), "m", "hi")
	}
	eventually(t, "all topics are in Redis", func() bool {
		for i := range topics {
			if a.version(fmt.Sprint("t", i+1)) != 1 {
				return false
			}
		}
		return true
	})
}

// The Redis has no persistence: what is in it after a restart was put there
// since, by this reader or by the look for what was missed before the
// subscription.
func TestAFlushedRedisIsFilledAgain(t *testing.T) {
	t.Parallel()
	p := newProjecting(t, alone(t, Options{Sweep: never}), testservers.PrivateRedis(t))
	say(t, p.mute, "t1", "m1", "hi")
	for range 3 {
		eventually(t, "what was read is in Redis", func() bool {
			got, err := p.Topics(t.Context(), tenant, []model.TopicID{"t1"})
			if err != nil || !strings.Contains(string(got["t1"]), `"version":1`) {
				t.Fatalf("Topics = %s, %v", got, err)
			}
			return p.version("t1") == 1
		})
		restart(t, p.redis)
	}
}

func restart(t *testing.T, r *localservers.Redis) {
	t.Helper()
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// With Redis away readers share few queries, and what was owed to Redis is
// written when it is back.
func TestRedisBeingAwayIsNoStormOnPostgres(t *testing.T) {
	t.Parallel()
	p := newProjecting(t, alone(t, Options{Sweep: never}), testservers.PrivateRedis(t))
	say(t, p.mute, "t1", "m1", "hi")
	if err := p.redis.Kill(); err != nil {
		t.Fatal(err)
	}
	before := p.rows.views.Load()
	var group sync.WaitGroup
	const readers = 400
	for range readers {
		group.Go(func() {
			got, err := p.Topics(t.Context(), tenant, []model.TopicID{"t1"})
			if err != nil || len(got) != 1 {
				t.Errorf("Topics = %s, %v", got, err)
			}
		})
	}
	group.Wait()
	if n := p.rows.views.Load() - before; n > readers/2 {
		t.Errorf("%d queries for %d readers", n, readers)
	}
	eventually(t, "the signal is heard", func() bool {
		say(t, p.store, "t1", model.NewToken(), "hi")
		return p.dirty.Len() > 0
	})
	if err := p.redis.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was owed is in Redis", func() bool { return p.version("t1") > 1 })
}

var _ Signals = (*bus.Bus)(nil)
