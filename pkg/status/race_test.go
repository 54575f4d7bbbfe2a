package status

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestAnOldFillNeverReplacesANewerEntryOrTombstone(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	old, current := entry(tenant, "t", 1), entry(tenant, "t", 2)
	c.put(t, current)
	c.put(t, old)
	if got := c.version(t, tenant, "t"); got != 2 {
		t.Errorf("version %d after an old fill, want 2", got)
	}
	if err := c.Invalidate(t.Context(), []Entry{{Tenant: tenant, Topic: "t", Version: 3}}); err != nil {
		t.Fatal(err)
	}
	c.put(t, current)
	if got := c.version(t, tenant, "t"); got != 0 {
		t.Errorf("version %d came back after it was invalidated", got)
	}
	c.put(t, entry(tenant, "t", 3)) // the tombstone waits for exactly this
	if got := c.version(t, tenant, "t"); got != 3 {
		t.Errorf("version %d, want 3", got)
	}
	if err := c.Invalidate(t.Context(), []Entry{{Tenant: tenant, Topic: "t", Version: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := c.version(t, tenant, "t"); got != 3 {
		t.Error("an entry that is current was invalidated by its own version")
	}
	if c.counts.get("outdated") != 3 {
		t.Errorf("counted %v", c.counts.values)
	}
}

func TestConcurrentFillsAndInvalidationsEndAtTheNewest(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	for range 30 {
		var all sync.WaitGroup
		for _, version := range rand.Perm(20) {
			all.Go(func() {
				v := int64(version + 1)
				if v%3 == 0 {
					_ = c.Invalidate(t.Context(), []Entry{{Tenant: tenant, Topic: "t", Version: v}})
				}
				c.put(t, entry(tenant, "t", v))
			})
		}
		all.Wait()
		if got := c.version(t, tenant, "t"); got != 20 {
			t.Fatalf("ended at version %d, want 20", got)
		}
		if err := c.raw.Del(t.Context(), keyOf("", identity(tenant, "t"))).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAfterAFlushWhatWasReadLongAgoIsNotStored(t *testing.T) {
	t.Parallel()
	server := testservers.PrivateRedis(t)
	c := open(t, server.URL(), patient)
	tenant := newTenant()
	late := entry(tenant, "t", 1)
	late.ReadAt = time.Now().Add(-fillDeadline - time.Millisecond)
	c.put(t, entry(tenant, "t", 2))
	if err := c.raw.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.put(t, late)
	if got := c.version(t, tenant, "t"); got != 0 {
		t.Errorf("version %d was stored although it was read too long ago", got)
	}
	if err := c.raw.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.put(t, entry(tenant, "t", 2), entry(tenant, "u", 7)) // the server has forgotten the script, too
	if a, b := c.version(t, tenant, "t"), c.version(t, tenant, "u"); a != 2 || b != 7 {
		t.Errorf("versions %d and %d after a flush, want 2 and 7", a, b)
	}
	if c.counts.get("late") != 1 {
		t.Errorf("counted %v", c.counts.values)
	}
}
