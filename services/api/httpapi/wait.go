package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// versionWait is how long a read waits for minVersion.
const versionWait = 5 * time.Second

// atLeast waits until the topic has the version that ?minVersion asks for.
// Errors: [model.ErrVersionUnknown] when it does not come in time.
func (r *request) atLeast(topic model.TopicID) error {
	least, err := r.version("minVersion")
	if err != nil || least == 0 {
		return err
	}
	ctx, cancel := r.waiting(versionWait)
	defer cancel()
	for {
		version, err := r.api.Store.Version(r.Context(), r.tenant(), topic)
		if err != nil || version >= least {
			return err
		}
		if r.api.Waiter.Wait(ctx, r.topicKey(topic), version) != nil {
			return model.ErrVersionUnknown
		}
	}
}

// waiting bounds a wait by time, by the asker's presence, and by the server's
// own end.
func (r *request) waiting(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	if draining := daemon.Draining(ctx); draining != nil {
		go func() {
			select {
			case <-draining:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// renewEvery is how often a waiting caller renews its hold, for short leases
// more often.
const renewEvery = 10 * time.Second

// await holds an answer back until there is one, for as long as ?wait says at
// most. look reads, and tells whether that is worth answering. It looks first
// and gets the topic's version from before; so nothing is missed between the
// looking and the waiting. hold, if not nil, is the turn whose hold the
// waiting renews. Whoever was revoked meanwhile is told that, and nothing else.
func (r *request) await(wait time.Duration, topic model.TopicID, hold *model.Turn, look func() (bool, error)) error {
	ctx, cancel := r.waiting(wait)
	defer cancel()
	for {
		version, err := r.api.Store.Version(r.Context(), r.tenant(), topic)
		if err != nil {
			return err
		}
		if done, err := look(); err != nil || done || ctx.Err() != nil {
			return err
		}
		if err := r.rest(ctx, store.TopicKey{Tenant: r.tenant(), Topic: topic}, version, hold); err != nil {
			return err
		}
		if err := r.stillMay()(ctx); err != nil {
			return err
		}
	}
}

// rest waits for a change, and renews a hold meanwhile. Only a backend's
// waiting does: a person who looks on is no sign that the holder lives.
func (r *request) rest(ctx context.Context, key store.TopicKey, version int64, hold *model.Turn) error {
	if !r.by.Has(model.RoleBackend) {
		hold = nil
	}
	every := renewEvery
	if hold != nil && hold.Hold != nil {
		every = min(every, hold.Hold.Lease/3)
	}
	for ctx.Err() == nil {
		if hold != nil && hold.Hold != nil {
			if err := failpoint.Hit(ctx, failpoint.HoldBeforeRenew); err != nil {
				return err
			}
			if err := r.api.Store.RenewHold(r.Context(), r.tenant(), hold.ID); err != nil {
				return err
			}
		}
		part, cancel := context.WithTimeout(ctx, every)
		err := r.api.Waiter.Wait(part, key, version)
		cancel()
		if err == nil {
			return nil
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// lookAgain is how often a list that waits is read while no topic narrows it.
const lookAgain = time.Second

// awaitList holds a list back until it has an item.
func (r *request) awaitList(wait time.Duration, topic model.TopicID, look func() (bool, error)) error {
	if topic != "" {
		err := r.await(wait, topic, nil, look)
		if !errors.Is(err, model.ErrNotFound) || errors.Is(err, errUnauthenticated) {
			return err
		}
		_, err = look()
		return err
	}
	ctx, cancel := r.waiting(wait)
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		if done, err := look(); err != nil || done {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := r.stillMay()(ctx); err != nil {
			return err
		}
	}
}
