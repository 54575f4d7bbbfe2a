// Package projection watches what Redis holds while a run goes on: an entry of
// a topic never goes back to an older version, unless somebody flushed it,
// and at the end none differs from its row for longer than entries live.
//
// It reads Redis in its own text protocol, past every proxy.
package projection
