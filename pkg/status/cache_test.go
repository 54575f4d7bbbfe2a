package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
)

func TestMain(m *testing.M) { testservers.Main(m) }

// testCache is a cache whose counts and keys can be looked at.
type testCache struct {
	*Cache
	counts *counts
	raw    *redis.Client
}

func open(t *testing.T, url string, opts ...Option) *testCache {
	t.Helper()
	counts := &counts{values: map[string]int64{}}
	cache, err := New(url, slog.New(slog.DiscardHandler), append(opts, WithMeter(&meter{counts: counts}))...)
	if err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	raw := redis.NewClient(options)
	t.Cleanup(func() {
		if err := errors.Join(cache.Close(), raw.Close()); err != nil {
			t.Error(err)
		}
	})
	return &testCache{cache, counts, raw}
}

// patient is for tests that are not about time: the machine may be busy.
func patient(o *options) { o.io, o.call = 5*time.Second, 10*time.Second }

// newTenant keeps a test apart from the others on the shared server, and from
// its own earlier runs.
func newTenant() model.TenantID { return model.TenantID(model.NewToken()) }

func entry(tenant model.TenantID, topic model.TopicID, version int64) Entry {
	return Entry{Tenant: tenant, Topic: topic, Version: version, Body: fmt.Appendf(nil, `{"version":%d}`, version), ReadAt: time.Now()}
}

func (c *testCache) put(t *testing.T, entries ...Entry) {
	t.Helper()
	if err := c.Put(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// version is what Get knows of a topic; 0 is nothing.
func (c *testCache) version(t *testing.T, tenant model.TenantID, topic model.TopicID) int64 {
	t.Helper()
	found, err := c.Get(t.Context(), tenant, []model.TopicID{topic})
	if err != nil {
		t.Fatal(err)
	}
	return found[topic].Version
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 15 s: %s", what)
		case <-tick.C:
		}
	}
}

type counts struct {
	mu     sync.Mutex
	values map[string]int64
}

func (c *counts) get(outcome string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[outcome]
}

// meter is the OpenTelemetry API's meter with a counter that keeps its sums.
type meter struct {
	noop.Meter
	counts *counts
}

func (m *meter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{counts: m.counts}, nil
}

type counter struct {
	noop.Int64Counter
	counts *counts
}

func (c *counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	set := metric.NewAddConfig(opts).Attributes()
	outcome, _ := set.Value(attribute.Key("outcome"))
	c.counts.mu.Lock()
	defer c.counts.mu.Unlock()
	c.counts.values[outcome.AsString()] += n
}

func TestWhatWasPutIsFoundAndNothingElse(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	awkward := []model.TopicID{"chat-42", "a:b", "a b.c/d*>", "{x}", "é", "%3A", "+", "a"}
	var entries []Entry
	for i, topic := range awkward {
		entries = append(entries, entry(tenant+":found", topic, int64(i+1)))
	}
	c.put(t, entries...)
	found, err := c.Get(t.Context(), tenant+":found", append(awkward, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[model.TopicID]Entry{}
	for _, e := range entries {
		e.ReadAt = time.Time{}
		want[e.Topic] = e
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if got := c.version(t, tenant, "found:chat-42"); got != 0 {
		t.Error("I9: another tenant's topic is found by a clever id")
	}
	if c.counts.get("hit") != int64(len(awkward)) || c.counts.get("miss") != 2 {
		t.Errorf("counted %v", c.counts.values)
	}
}

func TestEntriesExpireSpreadOverHalfAMinute(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	distinct := map[time.Duration]bool{}
	for i := range 20 {
		topic := model.TopicID(fmt.Sprint(i))
		c.put(t, entry(tenant, topic, 1))
		ttl, err := c.raw.PTTL(t.Context(), keyOf("", identity(tenant, topic))).Result()
		if err != nil || ttl < 25*time.Second || ttl > mostTTL {
			t.Fatalf("lives for %v: %v", ttl, err)
		}
		distinct[ttl.Round(100*time.Millisecond)] = true
	}
	if len(distinct) < 5 {
		t.Errorf("20 entries expire at %d times: no jitter", len(distinct))
	}
}

func TestUnusableEntriesAreRefusedAndTheOthersStored(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	unread := entry(tenant, "unread", 1)
	unread.ReadAt = time.Time{}
	notJSON := entry(tenant, "not-json", 1)
	notJSON.Body = []byte(`{"version"`)
	empty := entry(tenant, "empty", 1)
	empty.Body = nil
	err := c.Put(t.Context(), []Entry{
		unread, notJSON, empty, entry(tenant, "zero", 0), entry(tenant, "large", 1<<53), entry(tenant, "good", 1<<53-1),
	})
	if err == nil {
		t.Error("unusable entries were not reported")
	}
	for topic, want := range map[model.TopicID]int64{
		"unread": 0, "not-json": 0, "empty": 0, "zero": 0, "large": 0, "good": 1<<53 - 1,
	} {
		if got := c.version(t, tenant, topic); got != want {
			t.Errorf("topic %s: version %d, want %d", topic, got, want)
		}
	}
}

func TestNothingIsKnownFromNothing(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	if err := c.Put(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if found, err := c.Get(t.Context(), "a", nil); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	for _, url := range []string{"", "http://x", "redis://:secret@host:port/0", "redis://user:secret@[::1"} {
		_, err := New(url, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Errorf("%q was accepted", url)
		} else if msg := err.Error(); len(url) > 0 && contains(msg, "secret") {
			t.Errorf("the error shows the password: %s", msg)
		}
	}
}
