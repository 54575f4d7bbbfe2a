// Package watch is how a node notices that a topic changed: it wakes whoever
// waits, feeds the open event streams, and keeps the projection in Redis.
//
// It owns step 3 of the nine on the receiving side. A signal is a hint: it
// may be lost, doubled, late or forged, so nothing here believes one. A
// signal only says "read the rows"; what is sent or answered is what the rows
// then say, with their version. What a lost signal would have told is found
// by a sweep, one query for all topics that somebody watches, so with NATS
// off everything is as much later as the sweep's interval and not wrong (I8).
//
// The one rule for users: watch first, read after. Whatever is committed
// after [Hub.Watch] returned wakes the watch, so a change between the reading
// and the waiting cannot be missed.
//
// The projection is written by a queue group: of all nodes one writes each
// topic, in batches, and only what is newer than what is there. It is
// observational: no decision, claim or authorization may import this package
// to find out what is true.
//
// It imports pkg/model, pkg/store's types, pkg/bus's signal, pkg/status's
// entries, pkg/uimessage and services/api/view; what it needs of them is declared here as
// small interfaces.
package watch
