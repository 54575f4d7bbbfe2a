package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/approval"
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

// atLeastIn is minVersion of a list, which needs the topic whose version it
// means.
func (r *request) atLeastIn(topic model.TopicID) error {
	if topic == "" && r.param("minVersion") != "" {
		return approval.NewInvalid("?minVersion", "needs the parameter topic, whose version it means")
	}
	if topic == "" {
		return nil
	}
	return r.atLeast(topic)
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

// waitable is one thing of a turn that a request may wait for.
type waitable[T any] struct {
	read  func() (T, error)
	place func(T) (model.TopicID, model.TurnID)
	news  func(was, now T) bool // whether it is worth answering
}

// readOrWait reads a thing: no older than ?minVersion says, and where ?wait
// says so not before there is news of it.
func readOrWait[T any](r *request, w waitable[T]) (found T, err error) {
	wait, err := r.wait()
	if err != nil {
		return found, err
	}
	if found, err = w.read(); err != nil {
		return found, err
	}
	topic, id := w.place(found)
	if err := r.atLeast(topic); err != nil {
		return found, err
	}
	switch {
	case wait == 0 && r.param("minVersion") == "":
		return found, nil
	case wait == 0:
		return w.read()
	}
	turn, err := r.api.Store.Turn(r.Context(), r.tenant(), id)
	if err != nil {
		return found, err
	}
	was := found
	err = r.await(wait, topic, turn, func() (bool, error) {
		found, err = w.read()
		return err == nil && w.news(was, found), err
	})
	return found, err
}

// lookAgain is how often a list that waits is read while no topic narrows it.
const lookAgain = time.Second

// listOrWait reads a list: no older than ?minVersion says, and where ?wait
// says so not before it has an item.
func listOrWait[T any](r *request, topic model.TopicID, read func() ([]T, error)) (found []T, err error) {
	wait, err := r.wait()
	if err != nil {
		return nil, err
	}
	if err := r.atLeastIn(topic); err != nil {
		return nil, err
	}
	err = r.awaitList(wait, topic, func() (bool, error) {
		found, err = read()
		return len(found) > 0 || wait == 0, err
	})
	return found, err
}

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
