// Package faults shows what happens under every fault that one machine can
// produce: its tests carry the numbers of the table in docs/faults.md,
// which says for each what is expected and why.
//
// Real Postgres, NATS and Redis and the services as processes are broken
// while people and backends are at work; afterwards, everything that was
// acknowledged must be there, have happened once, and have gone on. It holds
// nothing but tests and what they share.
package faults
