// Package testcluster puts a whole Countersign together for a test: real
// Postgres, NATS and Redis, and the three services as processes of their own,
// which the test may kill. Everything ends with the test.
//
// A test binary that uses it wraps its run in testservers.Main.
package testcluster
