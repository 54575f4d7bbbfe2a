package cluster

import (
	"bytes"
	"sync"
)

// Output keeps what a process wrote.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// Contains tells whether the process wrote a text.
func (o *Output) Contains(text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.buf.Bytes(), []byte(text))
}

// Tail is the last lines.
func (o *Output) Tail(lines int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := bytes.Split(bytes.TrimSpace(o.buf.Bytes()), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
