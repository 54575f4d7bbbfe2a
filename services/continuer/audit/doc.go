// Package audit watches over the rows in the background. The chainer links
// audit rows into their tenants' chains within a second (I10). The auditor
// asks, over a window, what `countersign verify` asks of all rows, and tells
// by a gauge and by the log what breaks an invariant: it mends nothing, since
// a row that breaks one is a fault that a person has to understand.
//
// Both run on every node and work on one at a time: they take a lock in the
// database that ends with their transaction.
package audit
