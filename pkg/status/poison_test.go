package status

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// poisons are values that this package would not have written.
func poisons() map[string]func(ctx context.Context, raw *redis.Client, key, id string) error {
	hash := func(fields ...any) func(context.Context, *redis.Client, string, string) error {
		return func(ctx context.Context, raw *redis.Client, key, id string) error {
			values := append([]any{"id", id}, fields...)
			if err := raw.HSet(ctx, key, values...).Err(); err != nil {
				return err
			}
			return raw.PExpire(ctx, key, 40*time.Second).Err()
		}
	}
	return map[string]func(ctx context.Context, raw *redis.Client, key, id string) error{
		"text": func(ctx context.Context, raw *redis.Client, key, _ string) error {
			return raw.Set(ctx, key, "x", 0).Err()
		},
		"list": func(ctx context.Context, raw *redis.Client, key, _ string) error {
			return raw.LPush(ctx, key, "x").Err()
		},
		"another tenant's": hash("v", 99, "body", `{}`, "id", "b:t"),
		"no identity":      hash("v", 99, "body", `{}`, "id", ""),
		"no version":       hash("body", `{}`),
		"no body":          hash("v", 99),
		"version a word":   hash("v", "many", "body", `{}`),
		"version negative": hash("v", -5, "body", `{}`),
		"version infinite": hash("v", "1e400", "body", `{}`),
		"version too big":  hash("v", "9007199254740993", "body", `{}`),
		"version padded":   hash("v", " 99", "body", `{}`),
		"other fields":     hash("x", "y"),
	}
}

func TestPoisonIsAMissAndGoesAway(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	for name, poison := range poisons() {
		id := identity(tenant, "t")
		for range 2 {
			if err := poison(t.Context(), c.raw, keyOf("", id), id); err != nil {
				t.Fatal(err)
			}
			before := c.counts.get("poisoned")
			if got := c.version(t, tenant, "t"); got != 0 {
				t.Errorf("%s: version %d is believed", name, got)
			}
			if c.counts.get("poisoned") != before+1 {
				t.Errorf("%s: not counted", name)
			}
			if n, err := c.raw.Exists(t.Context(), keyOf("", id)).Result(); err != nil || n != 0 {
				t.Errorf("%s: still there, %v", name, err)
			}
		}
	}
}

func TestPoisonIsOverwritten(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	id := identity(tenant, "t")
	all := poisons()
	all["never expires"] = func(ctx context.Context, raw *redis.Client, key, id string) error {
		return raw.HSet(ctx, key, "v", 99, "id", id, "body", `{}`).Err()
	}
	for name, poison := range all {
		if err := c.raw.Del(t.Context(), keyOf("", id)).Err(); err != nil {
			t.Fatal(err)
		}
		if err := poison(t.Context(), c.raw, keyOf("", id), id); err != nil {
			t.Fatal(err)
		}
		c.put(t, entry(tenant, "t", 3))
		if got := c.version(t, tenant, "t"); got != 3 {
			t.Errorf("%s: version %d, want 3", name, got)
		}
	}
}

func TestABodyThatIsNotJSONIsAMissAndGoesAway(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	id := identity(tenant, "t")
	if err := c.raw.HSet(t.Context(), keyOf("", id), "v", 99, "id", id, "body", `{"cut`).Err(); err != nil {
		t.Fatal(err)
	}
	if got := c.version(t, tenant, "t"); got != 0 || c.counts.get("poisoned") != 1 {
		t.Errorf("version %d, counted %v", got, c.counts.values)
	}
	c.put(t, entry(tenant, "t", 3))
	if got := c.version(t, tenant, "t"); got != 3 {
		t.Errorf("version %d, want 3", got)
	}
}

// An entry that would never end, or only after hours, would be believed until
// its topic changes: it is a miss, and goes away.
func TestAnEntryThatNeverEndsIsAMissAndGoesAway(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	id := identity(tenant, "t")
	for _, end := range []time.Duration{0, time.Hour} {
		if err := c.raw.HSet(t.Context(), keyOf("", id), "v", 99, "id", id, "body", `{}`).Err(); err != nil {
			t.Fatal(err)
		}
		if end > 0 {
			c.raw.Expire(t.Context(), keyOf("", id), end)
		}
		if got := c.version(t, tenant, "t"); got != 0 {
			t.Errorf("an end of %s: version %d is believed", end, got)
		}
		if n, err := c.raw.Exists(t.Context(), keyOf("", id)).Result(); err != nil || n != 0 {
			t.Errorf("an end of %s: still there, %v", end, err)
		}
	}
}

func TestScrubbingSparesWhatWasStoredMeanwhile(t *testing.T) {
	t.Parallel()
	c := open(t, testservers.Redis(t), patient)
	tenant := newTenant()
	c.put(t, entry(tenant, "t", 3))
	c.remove(t.Context(), []scriptCall{{keyOf("", identity(tenant, "t")), []any{"99", "b:t", "{}"}}})
	if got := c.version(t, tenant, "t"); got != 3 {
		t.Errorf("version %d, want 3", got)
	}
}
