package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/model"
)

// FollowChunks gives handle every message of a turn's stream that is still
// kept, from the first on, and then each as it comes, in order and once, until
// handle says no or ctx ends. A message that cannot be had any more is a gap,
// which handle sees. Errors: ctx's; [ErrDisconnected] and others when the
// stream cannot be followed further: the caller begins anew or reads the rows.
//
// What comes is heard by a plain subscription, which costs a silent turn
// nothing. JetStream is asked only for what was said before, and for what the
// subscription missed.
func (b *Bus) FollowChunks(ctx context.Context, tenant model.TenantID, turn model.TurnID, handle func(Chunks) bool) error {
	f := &chunkFollower{bus: b, tenant: tenant, turn: turn, handle: handle,
		live: make(chan *nats.Msg, followBuffer), missed: make(chan struct{}, 1)}
	defer b.OnReconnect(func() { wake(f.missed) })()
	sub, err := b.nc.ChanSubscribe(ChunkSubject(tenant, turn), f.live) // subscribe first, read after
	if err != nil {
		return fmt.Errorf("follow chunks: %w", plainError(err))
	}
	defer func() { _ = sub.Unsubscribe() }() // it fails only when the connection is closed, which ends it too
	f.dropped = sub.Dropped
	if err := f.run(ctx); err != nil && ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("follow chunks: %w", plainError(err))
	}
	return nil
}

const (
	// followBuffer is how many messages of one turn may wait for who follows it;
	// what comes beyond is dropped, and read again.
	followBuffer = 256
	// heardAfter is when every server of a cluster knows of a subscription:
	// what was said in between on another one is read then.
	heardAfter = time.Second
)

// chunkFollower is one FollowChunks.
type chunkFollower struct {
	bus    *Bus
	tenant model.TenantID
	turn   model.TurnID
	handle func(Chunks) bool
	live   chan *nats.Msg
	missed chan struct{}

	fence, next int64               // what comes next of which stream
	done        bool                // the handler has enough
	dropped     func() (int, error) // messages that found live full
	knows       int                 // of those that were dropped
}

func (f *chunkFollower) run(ctx context.Context) error {
	settled := time.NewTimer(heardAfter)
	defer settled.Stop()
	if err := f.readKept(ctx); err != nil {
		return err
	}
	for !f.done {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.missed:
		case <-settled.C:
		case msg := <-f.live:
			if err := f.hear(ctx, msg); err != nil {
				return err
			}
			if !f.fellBehind() {
				continue
			}
		}
		if err := f.readKept(ctx); err != nil {
			return err
		}
	}
	return nil
}

// hear takes a message that came. One that is not the next shows that others
// were missed: its writer publishes one after the other, so they are kept.
func (f *chunkFollower) hear(ctx context.Context, msg *nats.Msg) error {
	c, ok := f.decode(msg.Header, msg.Data)
	if !ok {
		return nil
	}
	if f.ahead(c) {
		if err := f.readKept(ctx); err != nil || f.done {
			return err
		}
	}
	f.take(c)
	return nil
}

// fellBehind tells whether messages were dropped. That happens while others
// wait, so it is known when the last of those has been taken.
func (f *chunkFollower) fellBehind() bool {
	if len(f.live) > 0 {
		return false
	}
	dropped, err := f.dropped()
	behind := err == nil && dropped > f.knows
	f.knows = dropped
	return behind
}

func (f *chunkFollower) decode(header nats.Header, lines []byte) (Chunks, bool) {
	c, err := decodeChunks(f.tenant, f.turn, header, lines)
	if err != nil {
		count(f.bus.metrics.garbage, 1, "chunks")
		return c, false
	}
	f.bus.metrics.deliver("chunks", 1, time.Time{})
	return c, true
}

// ahead tells whether something is missing before a message.
func (f *chunkFollower) ahead(c Chunks) bool {
	return c.Fence > f.fence && c.First > 0 || c.Fence == f.fence && c.First > f.next
}

// take hands a message on, unless it was before.
func (f *chunkFollower) take(c Chunks) {
	if f.done || c.Fence < f.fence || c.Fence == f.fence && c.First < f.next {
		return
	}
	f.fence, f.next = c.Fence, c.First+c.Count
	f.done = !f.handle(c)
}

// readKept takes what the stream keeps and was not taken yet. Without the
// stream nothing is kept, and what comes is heard all the same.
func (f *chunkFollower) readKept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.bus.opts.timing.api)
	defer cancel()
	last, err := f.bus.lastChunks(ctx, ChunkSubject(f.tenant, f.turn))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case streamMissing(err):
		return f.bus.repairStreams(ctx)
	case err != nil:
		return err
	}
	c, ok := f.decode(last.Header, last.Data)
	if !ok || c.Fence < f.fence || c.Fence == f.fence && c.First < f.next {
		return nil
	}
	if !f.ahead(c) && c.First == f.next { // the usual case of a stream that has just begun
		f.take(c)
		return nil
	}
	return f.replay(ctx, last.Sequence)
}

// replay takes everything that is kept, up to a message that is.
func (f *chunkFollower) replay(ctx context.Context, last uint64) error {
	consumer, err := f.bus.js.OrderedConsumer(ctx, ChunksStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{ChunkSubject(f.tenant, f.turn)}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(100))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for !f.done {
		msg, err := messages.Next()
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if c, ok := f.decode(msg.Headers(), msg.Data()); ok {
			f.take(c)
		}
		if at, err := msg.Metadata(); err != nil || at.Sequence.Stream >= last {
			return err
		}
	}
	return nil
}

// chunkStream asks the server once what the stream is called there.
type chunkStream struct {
	mu     sync.Mutex
	stream jetstream.Stream
}

// lastChunks is the last message that is kept of a turn's stream. Errors:
// [jetstream.ErrMsgNotFound].
func (b *Bus) lastChunks(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	b.chunks.mu.Lock()
	stream := b.chunks.stream
	b.chunks.mu.Unlock()
	if stream == nil {
		var err error
		if stream, err = b.js.Stream(ctx, ChunksStream); err != nil {
			return nil, err
		}
		b.chunks.mu.Lock()
		b.chunks.stream = stream
		b.chunks.mu.Unlock()
	}
	return stream.GetLastMsgForSubject(ctx, subject)
}
