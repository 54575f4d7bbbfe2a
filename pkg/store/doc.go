// Package store is Postgres: the only truth. Every exported method that
// writes is one transaction, one file per transaction.
//
// A transaction locks its turn rows first and reads everything else after
// that, since under READ COMMITTED a statement that waited for a lock sees
// fresh values only in the rows it locked. It then calls the pure rules of
// package model with the database's clock, and writes what they changed.
// That makes two round trips: one that begins, locks and reads, one that
// writes and commits (see [tx]). The order of locks is the same everywhere:
// turns by id, their calls by id, topics by id, inserts last.
//
// The hot transactions (register, decide, claim, finish) are set-based: they
// take a batch of items of one tenant and give an outcome per item. A
// batcher in front of each hands over whatever queued up while the commit
// before was in flight.
//
// Each of them knows its own token: the registration's content, the decision
// id, the claim's token, the attempt's fence. Asking again is therefore how a
// commit of unknown outcome is looked up (I3), and a failed batch is retried
// item by item without a special case.
//
// It imports pkg/model, pgx and goose.
package store
