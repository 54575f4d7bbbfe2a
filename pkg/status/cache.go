package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/countersign/countersign/pkg/model"
)

// Entry is the projection of one topic at one version.
type Entry struct {
	Tenant model.TenantID
	Topic  model.TopicID
	// Version is the topic row's: at least 1, below 2^53.
	Version int64
	// Body is the projection, one JSON value.
	Body []byte
	// ReadAt is when the reading of the row began. [Cache.Put] needs it;
	// [Cache.Get] leaves it zero.
	ReadAt time.Time
	// Epoch is that of the database in which the row was read. After a
	// failover a version may stand for something else, or be ahead of all
	// that will come for a while: entries of another epoch are not looked at.
	Epoch string
}

// ErrDown says that Redis is not asked now, because it did not answer a
// moment ago. Read Postgres.
var ErrDown = errors.New("Redis is down")

// Cache is the projection. All methods may be called from any goroutine.
type Cache struct {
	client  redis.UniversalClient
	log     *slog.Logger
	entries metric.Int64Counter
	breaker *gobreaker.CircuitBreaker[struct{}]
	timeout time.Duration // of one call
	epoch   func() string
	probing atomic.Bool
	probes  sync.WaitGroup
}

// The client logs each failed dial to standard error; here errors are
// returned and counted instead.
var silenceClient = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// New sets the cache up and does no I/O: a server that is away is found by
// the first call. It fails only when the url makes no sense.
func New(url string, log *slog.Logger, opts ...Option) (*Cache, error) {
	silenceClient()
	o := defaultOptions()
	for _, opt := range opts {
		opt(&o)
	}
	entries, err := o.meter.Int64Counter("countersign.status.entries",
		metric.WithDescription("Entries of the projection by outcome: hit, miss, poisoned, written, outdated, late, failed."))
	if err != nil {
		return nil, fmt.Errorf("make the counter of the projection: %w", err)
	}
	client, err := newClient(url, o.io)
	if err != nil {
		return nil, err
	}
	c := &Cache{client: client, log: log.With("component", "status"), entries: entries, timeout: o.call, epoch: o.epoch}
	c.breaker = c.newBreaker()
	return c, nil
}

// Close disconnects.
func (c *Cache) Close() error {
	c.probes.Wait()
	if err := c.client.Close(); err != nil {
		return fmt.Errorf("disconnect from Redis: %w", err)
	}
	return nil
}

// Down tells whether calls return [ErrDown] at the moment. Asking is enough to
// have the server probed, so a node without readers learns that it is back.
func (c *Cache) Down() bool {
	if c.breaker.State() == gobreaker.StateClosed {
		return false
	}
	c.probe()
	return true
}

func (c *Cache) count(n int, outcome string) {
	if n > 0 {
		c.entries.Add(context.Background(), int64(n),
			metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", outcome))))
	}
}
