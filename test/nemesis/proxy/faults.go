package proxy

import "time"

// Faults is what is wrong at the moment; the zero value is a good network.
// "Up" is from the client to the target.
type Faults struct {
	// Every piece of data arrives this much later in both directions, in
	// order, and up to Jitter later still.
	Latency, Jitter time.Duration
	// What is sent in a direction does not arrive; connections stay. With
	// both, two machines are parted and neither is told.
	LoseUp, LoseDown bool
	// New connections are accepted and never answered: half open.
	Swallow bool
	// New connections are refused: nobody listens.
	Refuse bool
	// A connection is reset when it has passed this many bytes, both
	// directions together; 0: never.
	CutAfter int64
	// The end of a stream arrives this much later.
	SlowClose time.Duration
}

// loses tells whether a direction is lost.
func (f Faults) loses(d direction) bool { return d == up && f.LoseUp || d == down && f.LoseDown }

// Counts is what a proxy has seen, and what its faults did.
type Counts struct {
	Connections int64 // accepted
	Up, Down    int64 // bytes passed on
	Delayed     int64 // pieces of data that were made to wait
	Lost        int64 // pieces of data that a one-way loss held back
	Swallowed   int64 // connections
	Refused     int64 // times that refusing began; the kernel refuses, and does not count
	Cut         int64 // connections that were reset, by Cut or after their bytes
	Closed      int64 // ends of streams that were made to wait
}
