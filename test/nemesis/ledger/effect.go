package ledger

import "time"

// Request is what came in.
type Request struct {
	Call    string    `json:"call"`    // Countersign-Call
	Attempt int64     `json:"attempt"` // Countersign-Attempt, the fence; 0 where there is none
	Key     string    `json:"key"`     // Idempotency-Key
	Path    string    `json:"path"`    // of the URL: which tool
	SHA256  string    `json:"sha256"`  // of the body, in hex
	Bytes   int64     `json:"bytes"`   // of the body
	Time    time.Time `json:"time"`    // when its body had been read
	Behave  Behaviour `json:"behave"`
}

// Effect is something that a tool did. It happened when its line was synced.
type Effect struct {
	Request
	N    int       `json:"n"`    // the number of the effect in its ledger, from 1
	Done time.Time `json:"done"` // right before the line was written
}

// line is one line of the file: a request, which is there for whoever wants to
// know what led to what, or an effect, which alone counts.
type line struct {
	Request *Request `json:"request,omitempty"`
	Effect  *Effect  `json:"effect,omitempty"`
}
