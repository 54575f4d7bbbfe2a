package intake

import (
	"context"
	"sync"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/bus"
)

// Chunks carries the streams of live turns; *bus.Bus does.
type Chunks interface {
	PublishChunks(ctx context.Context, c bus.Chunks) error
}

// maxBatch bounds the lines of one message, in bytes, so that it fits NATS.
const maxBatch = 128 << 10

// publisher publishes the chunks of one stream in order. What comes while a
// publish is under way goes with the next one: no timer, and a busy stream
// costs few messages.
type publisher struct {
	out    Chunks
	to     bus.Chunks // tenant, turn, fence
	mu     sync.Mutex
	lines  [][]byte
	more   chan struct{}
	closed bool
	whole  bool // the turn was ended with its stream
	done   chan struct{}
}

func publish(ctx context.Context, out Chunks, st *approval.Stream) *publisher {
	p := &publisher{out: out, to: bus.Chunks{Tenant: st.Tenant, Turn: st.Writer.Turn, Fence: st.Writer.Fence},
		more: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run(ctx)
	return p
}

// add hands over one chunk's line.
func (p *publisher) add(line []byte) {
	p.mu.Lock()
	p.lines = append(p.lines, line)
	p.mu.Unlock()
	p.wake()
}

func (p *publisher) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// end publishes what is left, and returns when that was tried. Only where the
// turn was ended with its stream is it said that nothing follows: after a
// stream that broke off another one may begin, whose chunks are the ones that
// count.
func (p *publisher) end(whole bool) {
	p.mu.Lock()
	p.closed, p.whole = true, whole
	p.mu.Unlock()
	p.wake()
	<-p.done
}

// run publishes until the end. What cannot be published leaves a gap that
// followers see: they wait for the rows then.
func (p *publisher) run(ctx context.Context) {
	defer close(p.done)
	for range p.more {
		for {
			batch, n, last := p.take()
			if n == 0 && !last {
				break
			}
			if next := p.to; n > 0 || p.whole {
				next.Lines, next.Count = batch, n
				_ = p.out.PublishChunks(ctx, next)
			}
			if p.to.First += n; n == 0 {
				return
			}
		}
	}
}

// take takes lines for one message. With none left, closed tells whether that
// is the end.
func (p *publisher) take() (batch []byte, n int64, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.lines) > 0 && (n == 0 || len(batch)+len(p.lines[0]) < maxBatch) {
		batch = append(append(batch, p.lines[0]...), '\n')
		p.lines = p.lines[1:]
		n++
	}
	return batch, n, p.closed
}
