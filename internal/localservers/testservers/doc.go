// Package testservers gives tests real servers that leave nothing behind.
//
// Every test binary that uses it wraps its run:
//
//	func TestMain(m *testing.M) { testservers.Main(m) }
//
// Shared, started once per binary by the first test that asks: a Postgres, of
// which [Database] hands every test a fresh database copied from a template
// that was migrated once, and a [Redis]. The shared Postgres runs without
// fsync, because nobody pulls its plug.
//
// Private, one per call: [PrivatePostgres] (with fsync, to be killed and
// started again), [PrivateRedis], [NATS] within the binary, and [NATSProcess]
// and [NATSCluster] as processes that can be paused.
//
// It may not import what it tests: the caller passes the migration in.
package testservers
