package testservers

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/localservers"
)

// sharedRedis starts the binary's Redis once.
var sharedRedis = sync.OnceValues(func() (*localservers.Redis, error) {
	dir, err := sharedFolder()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	redis, err := localservers.StartRedis(ctx, localservers.RedisOptions{Dir: filepath.Join(dir, "redis")})
	if err == nil {
		share(redis.Close)
	}
	return redis, err
})

// Redis returns the URL of the shared Redis. Tests keep apart by tenants of
// their own; one that flushes or stops the server takes a [PrivateRedis].
func Redis(t testing.TB) string {
	t.Helper()
	redis, err := sharedRedis()
	if err != nil {
		t.Fatalf("shared Redis: %v", err)
	}
	return redis.URL()
}

// PrivateRedis starts a Redis for one test, which may kill it and start it
// again.
func PrivateRedis(t testing.TB) *localservers.Redis {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	redis, err := localservers.StartRedis(ctx, localservers.RedisOptions{Dir: Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, redis.Close)
	return redis
}

// NATS starts a server inside the test binary for one test, which may close
// it and start it again.
func NATS(t testing.TB) *localservers.NATS {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nats, err := localservers.StartNATS(ctx, localservers.NATSOptions{Dir: Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, nats.Close)
	return nats
}
