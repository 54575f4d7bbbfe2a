package status

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Option changes how [New] sets the cache up.
type Option func(*options)

type options struct {
	meter metric.Meter
	// io bounds one command and call one call with its retry. A healthy
	// server answers within a millisecond, and Postgres, where callers go
	// instead, within ten. Tests that are not about time wait longer.
	io, call time.Duration
	epoch    func() string
}

func defaultOptions() options {
	return options{
		meter: otel.Meter("github.com/countersign/countersign/pkg/status"),
		io:    100 * time.Millisecond,
		call:  200 * time.Millisecond,
		epoch: func() string { return "" },
	}
}

// WithMeter sets where the counters go; the global meter otherwise.
func WithMeter(meter metric.Meter) Option { return func(o *options) { o.meter = meter } }

// WithEpoch sets where the database's present epoch is asked for: letters and
// digits, and "" where there is none.
func WithEpoch(epoch func() string) Option { return func(o *options) { o.epoch = epoch } }

// poolSize bounds the connections to one server.
const poolSize = 16

// newClient makes a client for one server, or, when the url names more than
// one (redis://a:6379?addr=b:6379), for a Redis Cluster. It does not connect.
func newClient(address string, io time.Duration) (redis.UniversalClient, error) {
	parsed, err := url.Parse(address)
	if err == nil && parsed.Query().Has("addr") {
		return newClusterClient(address, io)
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, badURL(err)
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = io, io, io, io
	o.ContextTimeoutEnabled = true // off by default: a context's deadline would be ignored
	o.MaxRetries, o.DialerRetries = 1, 1
	o.MinRetryBackoff, o.MaxRetryBackoff = 5*time.Millisecond, 10*time.Millisecond
	o.PoolSize = poolSize
	o.PipelinePoolSize = -1 // everything here is a pipeline: one pool
	o.Protocol = 2          // no push messages
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func newClusterClient(address string, io time.Duration) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(address)
	if err != nil {
		return nil, badURL(err)
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = io, io, io, io
	o.ContextTimeoutEnabled = true
	o.MaxRetries, o.DialerRetries = 1, 1
	o.MinRetryBackoff, o.MaxRetryBackoff = 5*time.Millisecond, 10*time.Millisecond
	o.PoolSize = poolSize
	o.PipelinePoolSize = -1
	o.Protocol = 2
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClusterClient(o), nil
}

// badURL drops the url from the error, since it may hold a password.
func badURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err
	}
	return fmt.Errorf("the url of Redis makes no sense: %w; it looks like redis://user:password@host:6379/0", err)
}
