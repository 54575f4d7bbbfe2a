package store

import (
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// A turn that cannot be changed keeps neither its tenant's others nor another
// tenant's from what is due (I8).
func TestI8OneTurnThatFailsKeepsNobodyElse(t *testing.T) {
	t.Parallel()
	s := open(t)
	must(t, s.EnsureTenant(t.Context(), "other"))
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	for _, of := range []model.TenantID{tenant, "other"} {
		for _, topic := range []string{"bad", "good"} {
			r := registration(topic, asking(tool, "a"))
			r.Tenant, r.Expiry = of, time.Nanosecond
			register(t, s, r)
		}
	}
	exec(t, s, `update calls set fence = 1 where topic_id = 'bad' and tenant_id = 'acme'`) // it cannot be denied
	if n, err := s.ExpireApprovals(t.Context()); err == nil || n != 3 {
		t.Errorf("%d turns were expired, want 3, and an error: %v", n, err)
	}
	if n := scalar[int](t, s, `select count(*) from approvals where state = 'expired'`); n != 3 {
		t.Errorf("%d approvals are expired, want 3", n)
	}
}
