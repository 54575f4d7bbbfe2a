package status

import (
	"testing"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

// What was read before a failover of the database is not found after it, even
// where its version is ahead; and what is read late is not taken for new.
func TestEntriesOfAnotherEpochAreNotFound(t *testing.T) {
	t.Parallel()
	epoch := "1"
	c := open(t, testservers.Redis(t), patient, WithEpoch(func() string { return epoch }))
	tenant := newTenant()
	before := entry(tenant, "t", 7)
	before.Epoch = "1"
	c.put(t, before)
	if got := c.version(t, tenant, "t"); got != 7 {
		t.Fatalf("version %d, want 7", got)
	}
	epoch = "2"
	if got := c.version(t, tenant, "t"); got != 0 {
		t.Errorf("version %d of the epoch before is found", got)
	}
	after := entry(tenant, "t", 5)
	after.Epoch = "2"
	c.put(t, after)
	before.Version = 8
	c.put(t, before)
	if got := c.version(t, tenant, "t"); got != 5 {
		t.Errorf("version %d, want 5", got)
	}
}
