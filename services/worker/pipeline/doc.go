// Package pipeline runs one call from a hint to its committed result:
//
//	prepare   read the row, re-check what was approved, connect: no effect
//	claim     the commit that starts the run: fence, lease, attempt
//	run       the first outside byte and everything after it
//	finish    the commit that records the outcome
//	ack       only now is the hint done with
//
// A process that dies before the claim leaves a queued row, which is hinted
// again. One that dies between claim and finish leaves a lease, which runs
// out; what then becomes of the call goes by its tool's effect (I4). One that
// dies after finish leaves a hint whose row is no longer queued, which is
// acknowledged and dropped.
//
// Hints come over JetStream. Workers with free slots also look at the rows
// themselves every few seconds, which is what runs with NATS off.
package pipeline
