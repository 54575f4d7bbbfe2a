package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric"

	"github.com/countersign/countersign/pkg/model"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool // reads, sweeps, configuration
	hot  *pgxpool.Pool // what goes in batches, so that no storm of reads can starve a decision
	log  *slog.Logger

	register *batcher[registerItem, Registered]
	decide   *batcher[decideItem, Decided]
	claim    *batcher[claimItem, Claimed]
	finish   *batcher[finishItem, Finished]
	resolve  *batcher[resolveItem, ResolvedCall]
	prepare  *batcher[prepareItem, Prepared]

	changed func([]Change)
	moved   func()

	lineage lineage
	acked   acknowledged
	servers []*pgconn.Config // each by itself, when the URL names several
	metrics metrics
}

// Change names a topic and the version that a commit gave it.
type Change = model.Change

// Options are what a store may be told.
type Options struct {
	Log *slog.Logger
	// MaxConns bounds each of the two pools; 8 by default. Pools stay small:
	// what queues up behind them travels in one commit.
	MaxConns int32
	// Changed is called after each commit that changed topics, with all of
	// them. It must not block.
	Changed func([]Change)
	// Moved is called after a failover of the database: what was read before
	// may not be there any more (see [Store.Epoch]). It must not block.
	Moved func()
	// Meter counts batches and their sizes; nil counts nothing.
	Meter metric.Meter
	// Configure may change the pools' configuration, to trace queries for instance.
	Configure func(*pgxpool.Config)
}

// New makes a store for the database at url. It does not connect: the pools
// do when they are first used.
func New(url string, o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func([]Change) {}
	}
	if o.Moved == nil {
		o.Moved = func() {}
	}
	m := newMetrics(o.Meter)
	s := &Store{log: o.Log, moved: o.Moved, metrics: m}
	s.changed = func(changes []Change) {
		s.acked.add(changes)
		o.Changed(changes)
	}
	var err error
	if s.pool, err = s.newPool(url, o, nil); err != nil {
		return nil, err
	}
	if s.hot, err = s.newPool(url, o, batched); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.servers = each(s.pool.Config().ConnConfig)
	s.register = newBatcher("register", m, s.registerAll)
	s.decide = newBatcher("decide", m, s.decideAll)
	s.claim = newBatcher("claim", m, s.claimAll)
	s.finish = newBatcher("finish", m, s.finishAll)
	s.resolve = newBatcher("resolve", m, s.resolveAll)
	s.prepare = newBatcher("prepare", m, s.prepareAll)
	return s, nil
}

// batched are the settings of connections whose statements find rows by an
// array of keys. The joins that are left are between two sets of a batch's
// size, and foreign keys are looked up one by one; on tables that the planner
// knows nothing of it would choose a nested loop for the former and a scan
// of the whole table for the latter, and keep to that while they grow. One
// plan is right for every size of an array, so none is made anew for each:
// planning would take longer than running.
var batched = map[string]string{
	"enable_nestloop": "off",
	"enable_seqscan":  "off",
	"plan_cache_mode": "force_generic_plan",
}

func (s *Store) newPool(url string, o Options, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be read: %w", err)
	}
	config.MaxConns = 8
	if o.MaxConns > 0 {
		config.MaxConns = o.MaxConns
	}
	config.MaxConnIdleTime = 5 * time.Minute
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.ConnConfig.Tracer = usual
	config.ConnConfig.OnNotice = onNotice
	config.AfterConnect = registerUUIDs
	s.validate(config)
	for _, more := range []map[string]string{defaults, settings} {
		for name, value := range more {
			if _, set := config.ConnConfig.RuntimeParams[name]; !set {
				config.ConnConfig.RuntimeParams[name] = value
			}
		}
	}
	if o.Configure != nil {
		o.Configure(config)
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// defaults are every connection's settings, where the URL says nothing else.
var defaults = map[string]string{
	"application_name":                    "countersign",
	"jit":                                 "off", // statements take milliseconds, compiling one takes longer
	"timezone":                            "UTC",
	"lock_timeout":                        "2000",  // a lock that takes longer is retried
	"statement_timeout":                   "10000", // nothing here is slow on purpose
	"idle_in_transaction_session_timeout": "10000", // a paused node must not hold a turn
}

// Close ends the batchers and the connections.
func (s *Store) Close() {
	s.register.close()
	s.decide.close()
	s.claim.close()
	s.finish.close()
	s.resolve.close()
	s.prepare.close()
	s.pool.Close()
	s.hot.Close()
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return unavailable(s.pool.Ping(ctx)) }
