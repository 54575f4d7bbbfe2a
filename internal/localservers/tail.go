package localservers

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// tailSize is how much of a server's last output an error can show.
const tailSize = 4096

// tail passes a server's output on and remembers its end, for the error
// message when the server dies.
type tail struct {
	mu   sync.Mutex
	next io.Writer
	text []byte
}

func newTail(next io.Writer) *tail {
	if next == nil {
		next = io.Discard
	}
	return &tail{next: next}
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	// A log that cannot be written must not stop the server.
	_, _ = t.next.Write(p)
	return len(p), nil
}

// String is the last few lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(string(bytes.TrimSpace(t.text)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

func (t *tail) contains(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Contains(t.text, []byte(text))
}
