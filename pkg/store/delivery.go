package store

import (
	"context"
	"time"
)

// LeaseDelivery takes a continuation for one delivery that may take a while,
// such as a webhook's, so that two continuers do not make it at once. It
// reports whether this one has it.
func (s *Store) LeaseDelivery(ctx context.Context, c DueContinuation, lease time.Duration) (bool, error) {
	tag, err := s.pool.Exec(ctx, leaseDelivery, c.Tenant, string(c.Turn), c.Generation, c.Deliveries, lease.Milliseconds())
	return tag.RowsAffected() == 1, unavailable(err)
}

const leaseDelivery = `
	update continuations
	   set next_at = clock_timestamp() + $5 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and generation = $3 and deliveries = $4
	   and state in ('ready', 'dispatched') and next_at <= clock_timestamp()`

// DeliveryFailed records why a delivery failed and when it is tried again.
func (s *Store) DeliveryFailed(ctx context.Context, c DueContinuation, reason string, again time.Duration) error {
	_, err := s.pool.Exec(ctx, deliveryFailed, c.Tenant, string(c.Turn), c.Generation, storable(reason), again.Milliseconds())
	return unavailable(err)
}

const deliveryFailed = `
	update continuations
	   set state = 'ready',
	       deliveries = deliveries + 1,
	       last_error = $4,
	       next_at = clock_timestamp() + $5 * interval '1 millisecond'
	 where tenant_id = $1 and turn_id = ($2::text)::uuid and generation = $3 and state in ('ready', 'dispatched')`
