package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/pkg/model"
)

// scrub removes a value that did not verify, if it is still the one seen.
var scrub = redis.NewScript(`
local now = redis.pcall('HMGET', KEYS[1], 'v', 'id', 'body')
if now.err or ((now[1] or '') == ARGV[1] and (now[2] or '') == ARGV[2] and (now[3] or '') == ARGV[3]) then
  return redis.call('DEL', KEYS[1])
end
return 0
`)

// Get gives what is known of the topics, in one round trip; a topic that is
// not in the map is not known. With an error nothing is known.
func (c *Cache) Get(ctx context.Context, tenant model.TenantID, topics []model.TopicID) (map[model.TopicID]Entry, error) {
	found := make(map[model.TopicID]Entry, len(topics))
	if len(topics) == 0 {
		return found, nil
	}
	epoch := c.epoch()
	values, ends, err := c.fetch(ctx, epoch, tenant, topics)
	if err != nil {
		c.count(len(topics), "failed")
		return nil, fmt.Errorf("read %d topic statuses: %w", len(topics), err)
	}
	var poison []scriptCall
	for i, topic := range topics {
		entry, known, err := read(tenant, topic, values[i])
		if known && (ends[i].Val() == forever || ends[i].Val() > mostTTL) {
			known, err = false, errPoisoned
		}
		switch {
		case err != nil:
			poison = append(poison, scriptCall{keyOf(epoch, identity(tenant, topic)), seen(values[i])})
		case known:
			entry.Epoch = epoch
			found[topic] = entry
		}
	}
	c.count(len(found), "hit")
	c.count(len(topics)-len(found)-len(poison), "miss")
	c.remove(ctx, poison)
	return found, nil
}

// forever is the end of a key that has none. No entry of ours is like that: it
// would be believed until its topic changes, however wrong it is.
const forever = -1

// fetch reads the values, and how long each lives; a key of another type is an
// answer like any other.
func (c *Cache) fetch(ctx context.Context, epoch string, tenant model.TenantID, topics []model.TopicID) ([]*redis.SliceCmd, []*redis.DurationCmd, error) {
	values, ends := make([]*redis.SliceCmd, len(topics)), make([]*redis.DurationCmd, len(topics))
	err := c.guard(ctx, func(ctx context.Context) error {
		pipe := c.client.Pipeline()
		for i, topic := range topics {
			key := keyOf(epoch, identity(tenant, topic))
			values[i], ends[i] = pipe.HMGet(ctx, key, "v", "id", "body"), pipe.PTTL(ctx, key)
		}
		_, err := pipe.Exec(ctx)
		return lost(err)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, value := range values {
		if err := value.Err(); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, nil, err
		}
	}
	return values, ends, nil
}

var errPoisoned = errors.New("the value does not verify")

// read verifies a value. Nothing there and a tombstone are not known; what
// this package would not have written is errPoisoned.
func read(tenant model.TenantID, topic model.TopicID, value *redis.SliceCmd) (e Entry, known bool, err error) {
	fields, err := value.Result()
	if err != nil || len(fields) != 3 {
		return Entry{}, false, errPoisoned
	}
	if fields[0] == nil && fields[1] == nil && fields[2] == nil {
		return Entry{}, false, nil
	}
	v, _ := fields[0].(string)
	id, _ := fields[1].(string)
	body, isText := fields[2].(string)
	version, err := strconv.ParseInt(v, 10, 64)
	e = Entry{Tenant: tenant, Topic: topic, Version: version, Body: []byte(body)}
	if err != nil || check(e) != nil || id != identity(tenant, topic) || !isText {
		return Entry{}, false, errPoisoned
	}
	if body == "" {
		return Entry{}, false, nil
	}
	if !json.Valid(e.Body) {
		return Entry{}, false, errPoisoned
	}
	return e, true, nil
}

// seen gives the fields as the scrub script compares them.
func seen(value *redis.SliceCmd) []any {
	args := []any{"", "", ""}
	for i, field := range value.Val() {
		if text, ok := field.(string); ok && i < len(args) {
			args[i] = text
		}
	}
	return args
}

func (c *Cache) remove(ctx context.Context, poison []scriptCall) {
	if len(poison) == 0 {
		return
	}
	c.count(len(poison), "poisoned")
	c.log.Warn("found values in Redis that are not ours, removing them", "keys", len(poison), "first", poison[0].key)
	_ = c.guard(ctx, func(ctx context.Context) error { // they expire, or are found again
		_, err := c.run(ctx, scrub, poison)
		return lost(err)
	})
}
