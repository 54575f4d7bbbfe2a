// Package status is Redis: the projection of topic statuses.
//
// It owns the keys ts:[<epoch>:]<tenant>:<topic> and is the only package that imports
// go-redis. It imports pkg/model for ids and the OpenTelemetry API for
// counters; nothing else of ours.
//
// # What it promises
//
// A cache is a projection: everything here was made from a committed row and
// can be lost at any moment (flush, eviction, failover, a dead server). What
// [Cache.Get] gives may be old by at most the time an entry lives (a minute)
// plus the time a writer may take (a second and a bit); a caller that needs
// more asks Postgres. No decision, claim, authorization or dispatch reads it.
//
// An error never harms: whoever gets one reads Postgres. A dead server costs
// one caller at most 200 ms; then a breaker is open and calls return at once,
// while a background ping looks for the server once a second.
//
// # Why set-if-newer, and why tombstones
//
// A reader that read version 1 and is slow to store it would overwrite, or
// resurrect after a delete, what a faster one stored about version 2: two out
// of three adversarial trials. So entries carry the row's version, which grows
// under the row's lock, and one script stores only what is newer.
// Invalidating writes a tombstone with the new version instead of deleting,
// since a deleted key has forgotten what it must not accept. After a flush
// nothing is remembered; against that an entry that was read more than a
// second ago is not stored.
//
// A failover of the database to a standby that lagged behind takes versions
// back. So keys carry the database's epoch: what was read before it is not
// found any more, and expires.
//
// # Why nothing found in Redis is believed
//
// A value carries its tenant and topic and is compared with what was asked
// for, so that a mixed-up reply or a key written by something else is a miss
// and never another tenant's data (I9). What does not verify is counted, and
// removed if it is still the same.
package status
