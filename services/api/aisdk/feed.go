package aisdk

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/uistream"
)

// feeds are the live turns that windows of this node follow: each is received
// once, and kept once, however many windows show it.
type feeds struct {
	chunks Chunks
	mu     sync.Mutex
	open   map[feedKey]*feed
}

// feedKey names one stream of a turn: a stream of a higher fence is another.
type feedKey struct {
	tenant model.TenantID
	turn   model.TurnID
	fence  int64
}

// feed is what one live turn has said so far. It only grows, so that each
// window reads it at its own pace, and a slow one holds nothing up.
type feed struct {
	key    feedKey
	users  int
	cancel context.CancelFunc

	mu      sync.Mutex
	lines   []line
	size    int
	state   feedState
	changed chan struct{} // closed, and replaced, at every change
}

type line struct {
	text  []byte
	chunk uistream.Chunk
}

type feedState int

// A feed runs until its stream has ended; or another stream has taken its turn
// over; or it has a gap, after which only the rows can tell the rest.
const (
	running feedState = iota
	over
	replaced
	gapped
)

// maxFeed bounds what is kept of one turn, in bytes.
const maxFeed = 16 << 20

// follow begins to use a turn's feed; the returned function ends that.
func (f *feeds) follow(key feedKey) (*feed, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fd := f.open[key]
	if fd == nil || fd.broken() {
		ctx, cancel := context.WithCancel(context.Background())
		fd = &feed{key: key, cancel: cancel, changed: make(chan struct{})}
		f.open[key] = fd
		go fd.run(ctx, f.chunks)
	}
	fd.users++
	return fd, func() { f.leave(fd) }
}

func (f *feeds) leave(fd *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fd.users--; fd.users == 0 {
		fd.cancel()
		if f.open[fd.key] == fd {
			delete(f.open, fd.key)
		}
	}
}

// retryAfter is the pause before a feed that cannot be followed is tried
// again, from its first chunk on.
const retryAfter = 250 * time.Millisecond

// run receives the turn's chunks until they end or nobody uses the feed.
func (fd *feed) run(ctx context.Context, chunks Chunks) {
	for {
		if chunks.FollowChunks(ctx, fd.key.tenant, fd.key.turn, fd.take) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// take adds what is new; it says whether there can be more.
func (fd *feed) take(c bus.Chunks) bool {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	have := int64(len(fd.lines))
	if c.Fence < fd.key.fence || c.Fence == fd.key.fence && c.First < have {
		return true
	}
	switch {
	case c.Fence > fd.key.fence:
		fd.state = replaced
	case c.First > have || fd.size > maxFeed:
		fd.state = gapped
	case c.Count == 0:
		fd.state = over
	default:
		fd.append(c.Lines)
	}
	fd.wake()
	return fd.state == running
}

// broken tells whether whoever follows it must begin anew.
func (fd *feed) broken() bool {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.state == replaced || fd.state == gapped
}

func (fd *feed) append(lines []byte) {
	for text := range bytes.Lines(lines) {
		text = bytes.TrimSuffix(text, []byte("\n"))
		c, err := uistream.Parse(text)
		if err == nil {
			fd.lines = append(fd.lines, line{text, c})
			fd.size += len(text)
		}
	}
}

func (fd *feed) wake() {
	close(fd.changed)
	fd.changed = make(chan struct{})
}

// after gives the lines from the n-th on, the feed's state with them, and
// what is closed when there are more.
func (fd *feed) after(n int) ([]line, feedState, <-chan struct{}) {
	fd.mu.Lock()
	defer fd.mu.Unlock()
	return fd.lines[n:len(fd.lines):len(fd.lines)], fd.state, fd.changed
}
