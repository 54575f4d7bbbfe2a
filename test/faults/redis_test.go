package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/test/nemesis/proxy"
)

// projection is a deployment whose Redis the test breaks, with people at work
// and somebody who reads what Redis is for.
type projection struct {
	*traffic
	raw   *redis.Client
	proxy *proxy.Proxy // between the services and Redis
}

func onRedis(t *testing.T) *projection {
	t.Helper()
	d := testcluster.Servers(t)
	options, err := redis.ParseURL(d.Redis.URL())
	must(t, err)
	p, err := proxy.Listen("127.0.0.1:0", options.Addr)
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	d.Env = append(d.Env, "COUNTERSIGN_REDIS_URL=redis://"+p.Addr()+"/0")
	start(d)
	options.DialTimeout, options.MaxRetries = testcluster.Deadline, -1
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	return &projection{newTraffic(t, d), raw, p}
}

// reads reads topics until its context ends; an error is one of the test, as
// is an answer that does not come.
func (p *projection) reads(ctx context.Context) (stopped *sync.WaitGroup) {
	stopped = &sync.WaitGroup{}
	stopped.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			begin := time.Now()
			err := readTopics(ctx, p.nodes[n%2])
			if took := time.Since(begin); ctx.Err() == nil && (err != nil || took > patience) {
				p.t.Errorf("reading topics took %s: %v", took, err)
			}
			<-tick.C
		}
	})
	return stopped
}

// readTopics reads a page of topics, which Postgres answers, and the same by
// their ids, which Redis does.
func readTopics(ctx context.Context, node *client.Client) error {
	list, err := node.Topics(ctx, client.TopicFilter{Paging: client.Paging{Limit: 20}})
	if err != nil || len(list.Items) == 0 {
		return err
	}
	ids := make([]string, len(list.Items))
	for i, topic := range list.Items {
		ids[i] = topic.ID
	}
	_, err = node.Topics(ctx, client.TopicFilter{IDs: ids})
	return err
}

// Redis is flushed all the time, killed, paused, slow, out of memory, and full
// of what nobody of ours wrote. Nobody notices but by the time it takes.
func TestFault37To40RedisIsFlushedAwaySlowFullAndPoisoned(t *testing.T) {
	t.Parallel()
	p := onRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	readers := p.reads(ctx)
	p.start(2)
	p.isUsed()
	for _, fault := range []func(*projection){
		fault37Flushed, fault38Killed, fault38Paused, fault38Slow, fault38OutOfMemory, fault40Poisoned,
	} {
		fault(p)
		p.isUsed()
	}
	cancel()
	readers.Wait()
	p.stop()
	p.showsTheRows()
	if p.refused > 0 || p.cut > 0 {
		t.Errorf("%d requests were refused and %d cut off for want of Redis", p.refused, p.cut)
	}
	p.keepsItsPromises()
}

// isUsed waits until topics are written to Redis, and found there.
func (p *projection) isUsed() {
	p.t.Helper()
	for _, outcome := range []string{"written", "hit"} {
		grows(p.t, p.d.API[0], "countersign_status_entries_total", `outcome="`+outcome+`"`)
	}
}

func fault37Flushed(p *projection) {
	ctx, cancel := context.WithCancel(p.t.Context())
	flushes := 0
	var flusher sync.WaitGroup
	flusher.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if p.raw.FlushAll(ctx).Err() == nil {
				flushes++
			}
			<-tick.C
		}
	})
	p.goesOn(20)
	cancel()
	if flusher.Wait(); flushes == 0 {
		p.t.Error("nothing was flushed")
	}
}

func fault38Killed(p *projection) {
	must(p.t, p.d.Redis.Kill())
	p.goesOn(10)
	must(p.t, p.d.Redis.Start(p.t.Context()))
}

func fault38Paused(p *projection) {
	must(p.t, p.d.Redis.Pause())
	p.goesOn(10)
	must(p.t, p.d.Redis.Resume())
}

func fault38Slow(p *projection) {
	must(p.t, p.proxy.Set(proxy.Faults{Latency: 2 * time.Second}))
	p.goesOn(10)
	must(p.t, p.proxy.Heal())
}

func fault38OutOfMemory(p *projection) {
	ctx := p.t.Context()
	must(p.t, p.raw.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	must(p.t, p.raw.ConfigSet(ctx, "maxmemory", "1").Err())
	must(p.t, p.raw.FlushAll(ctx).Err())
	grows(p.t, p.d.API[0], "countersign_status_entries_total", `outcome="failed"`)
	p.goesOn(10)
	must(p.t, p.raw.ConfigSet(ctx, "maxmemory", "0").Err())
}

// fault40Poisoned writes over every entry: another type, garbage, another
// tenant's topic, something huge.
func fault40Poisoned(p *projection) {
	ctx := p.t.Context()
	keys, err := p.raw.Keys(ctx, "ts:*").Result()
	must(p.t, err)
	if len(keys) < 4 {
		p.t.Fatalf("only %d keys to poison", len(keys))
	}
	for i, key := range keys {
		pipe := p.raw.TxPipeline()
		switch i % 4 {
		case 0:
			pipe.Set(ctx, key, "not a hash", 0)
		case 1:
			pipe.HSet(ctx, key, "v", "9e99", "body", "{\xff")
		case 2:
			pipe.HSet(ctx, key, "id", "other:"+key[strings.LastIndexByte(key, ':')+1:], "v", 1<<40, "body", `{"id":"of another tenant"}`)
		case 3:
			pipe.HSet(ctx, key, "body", strings.Repeat("x", 1<<20))
		}
		_, err := pipe.Exec(ctx)
		must(p.t, err)
	}
	reaches(p.t, p.d.API[0], 1, "countersign_status_entries_total", `outcome="poisoned"`)
	p.showsTheRows()
}

// showsTheRows waits until each node shows every topic as its rows are (I8).
func (p *projection) showsTheRows() {
	p.t.Helper()
	for n, node := range p.nodes {
		testcluster.Eventually(p.t, fmt.Sprintf("node %d shows the rows", n), func(ctx context.Context) error {
			return p.compare(ctx, node)
		})
	}
}

// compare reads pages of topics, and of each the version in its row.
func (p *projection) compare(ctx context.Context, node *client.Client) error {
	versions, err := p.versions(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, 0, len(versions))
	for id := range versions {
		ids = append(ids, id)
	}
	for page := range slices.Chunk(ids, 50) {
		list, err := node.Topics(ctx, client.TopicFilter{IDs: page})
		if err != nil {
			return err
		}
		if len(list.Items) != len(page) {
			return fmt.Errorf("%d topics of %d", len(list.Items), len(page))
		}
		for _, topic := range list.Items {
			if topic.Version < versions[topic.ID] {
				return fmt.Errorf("%s has version %d, shown is %d", topic.ID, versions[topic.ID], topic.Version)
			}
		}
	}
	return nil
}

func (p *projection) versions(ctx context.Context) (map[string]int64, error) {
	rows, err := p.d.Rows().QueryContext(ctx, `select topic_id, version from topics`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var id string
		var version int64
		if err := rows.Scan(&id, &version); err != nil {
			return nil, err
		}
		out[id] = version
	}
	return out, rows.Err()
}
