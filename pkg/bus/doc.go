// Package bus is NATS: the subjects, the streams, the signal, and the hints
// that wake workers and backends.
//
// It owns every byte that Countersign puts on NATS and is the only package
// that imports nats.go. It imports pkg/model for ids and sentinels, and the
// OpenTelemetry API for counters; nothing else of ours.
//
// # What it promises, and what it does not
//
// A message is a hint. It carries ids and a version, never a verdict, an
// input or a result, and whoever receives one reads the committed rows. So a
// lost, doubled, late, reordered or forged message costs time and never
// correctness (I1 to I8 hold with NATS switched off). Everything here is
// built on that: a publish that failed is reported and not repeated for ever,
// because a sweep over the rows repeats it; a stream that vanished is made
// again, empty; a message that makes no sense is terminated and counted.
//
// One kind of message carries data: the chunks of a live turn, since a token
// must not cost a commit. What they say of calls was committed before they
// were published, and the turn's row has all of it at the end.
//
// The kinds of traffic:
//
//	countersign.invalidated.<tenant>.<topic>      core NATS   signal: look at this topic
//	countersign.runs.<tenant>                     RUNS        run hint: this call is queued
//	countersign.model.<tenant>                    MODEL       model hint: this turn is to be gone on from
//	countersign.continuations.<tenant>.<sink>     CONTINUATIONS  what a JetStream sink receives
//	countersign.heartbeats.<worker>               HEARTBEATS  the last known state of a worker
//	countersign.chunks.<tenant>.<turn>            CHUNKS      what a live turn says while it streams
//
// # Why the streams look as they do
//
// Limits retention, because WorkQueue and Interest streams delete a message
// with its acknowledgement and rebuild their duplicate table from what is
// stored: after a restart of the server they accept the same message id
// again. The duplicate window is never longer than MaxAge for the same
// reason. Even so, deduplication only saves work: what makes a run happen
// once is the claim row in Postgres (I4), not a message id and not an
// acknowledgement, which NATS accepts from anyone who was ever given the
// message.
//
// # Why consuming is hand-made
//
// A worker must never hold a message that it cannot start: the time until
// redelivery runs from delivery, so a prefetched message is delivered twice
// while it waits. nats.go pulls a fixed number ahead; here the pull requests
// outstanding never exceed the slots that are free, and grow and shrink with
// them (see [Slots] and puller). Acknowledgements are confirmed by the
// server, many in flight, off the worker's path.
package bus
