package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/bugs"
)

const (
	// maxVersion is where Lua's numbers, which are doubles, stop telling two
	// versions apart.
	maxVersion = 1 << 53
	// fillDeadline is how old what was read may be when it is stored.
	fillDeadline = time.Second
	// An entry lives 45 s, give or take 15, so that entries stored together
	// do not expire together.
	leastTTL, mostTTL = 30 * time.Second, 60 * time.Second
)

// setIfNewer stores version, identity and body (empty: a tombstone) under
// KEYS[1] for ARGV[4] milliseconds, unless what is there is newer, or as new
// and says at least as much. What is there counts only if it looks like an
// entry of ours: a hash with this identity, a version that is a small enough
// number, and an end.
var setIfNewer = redis.NewScript(unlessNewer + set)

const unlessNewer = `
local old = redis.pcall('HMGET', KEYS[1], 'v', 'id', 'body')
if not old.err and old[2] == ARGV[2] and old[1] and old[3] and string.match(old[1], '^[1-9]%d*$') then
  local have, new, ttl = tonumber(old[1]), tonumber(ARGV[1]), redis.call('PTTL', KEYS[1])
  local sound = have < 9007199254740992 and ttl >= 0 and ttl <= 60000
  if sound and (have > new or have == new and (old[3] ~= '' or ARGV[3] == '')) then
    return 0
  end
end
`

const set = `
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'v', ARGV[1], 'id', ARGV[2], 'body', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
`

// setAlways is what a plain SET would be.
var setAlways = redis.NewScript(set)

// Put stores entries that are newer than what is there, in one round trip.
// An entry that was read more than a second ago is left out, since its guard
// may have been flushed meanwhile. The error says what was not stored, for
// the log; nothing else need be done about it.
func (c *Cache) Put(ctx context.Context, entries []Entry) error {
	var errs []error
	sound := make([]Entry, 0, len(entries))
	late := 0
	for _, e := range entries {
		switch err := check(e); {
		case err != nil:
			errs = append(errs, err)
		case !json.Valid(e.Body):
			errs = append(errs, fmt.Errorf("the body for topic %q is not JSON", e.Topic))
		case e.ReadAt.IsZero():
			errs = append(errs, fmt.Errorf("the entry for topic %q does not say when it was read", e.Topic))
		case time.Since(e.ReadAt) > fillDeadline:
			late++
		default:
			sound = append(sound, e)
		}
	}
	c.count(late, "late")
	return errors.Join(append(errs, c.store(ctx, sound))...)
}

// Invalidate makes every entry that is older than the version named a miss,
// and keeps it from coming back; Body and ReadAt do not matter.
func (c *Cache) Invalidate(ctx context.Context, entries []Entry) error {
	var errs []error
	tombstones := make([]Entry, 0, len(entries))
	for _, e := range entries {
		if err := check(e); err != nil {
			errs = append(errs, err)
			continue
		}
		e.Body = nil
		tombstones = append(tombstones, e)
	}
	return errors.Join(append(errs, c.store(ctx, tombstones))...)
}

func check(e Entry) error {
	if e.Version < 1 || e.Version >= maxVersion {
		return fmt.Errorf("topic %q: version %d is not between 1 and 2^53", e.Topic, e.Version)
	}
	return nil
}

func (c *Cache) store(ctx context.Context, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	calls := make([]scriptCall, len(entries))
	for i, e := range entries {
		id := identity(e.Tenant, e.Topic)
		ttl := leastTTL + rand.N(mostTTL-leastTTL)
		calls[i] = scriptCall{keyOf(e.Epoch, id), []any{e.Version, id, e.Body, ttl.Milliseconds()}}
	}
	script := setIfNewer
	if bugs.SetCache {
		script = setAlways
	}
	var results []*redis.Cmd
	var answer error
	err := c.guard(ctx, func(ctx context.Context) error {
		results, answer = c.run(ctx, script, calls)
		return lost(answer)
	})
	if err == nil {
		err = answer // the server is there and refuses, for example for want of memory
	}
	c.countWritten(len(entries), results)
	if err != nil {
		return fmt.Errorf("store %d topic statuses: %w", len(entries), err)
	}
	return nil
}

func (c *Cache) countWritten(entries int, results []*redis.Cmd) {
	written, outdated := 0, 0
	for _, result := range results {
		switch n, err := result.Int(); {
		case err != nil:
		case n == 1:
			written++
		default:
			outdated++
		}
	}
	c.count(written, "written")
	c.count(outdated, "outdated")
	c.count(entries-written-outdated, "failed")
}
