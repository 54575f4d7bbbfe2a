package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/model"
)

// Chunks are some chunks of a live turn's stream, in order: the one message of
// ours that carries data, since tokens cost no commit. What they say of calls
// was committed before; whoever missed some reads the rows.
type Chunks struct {
	Tenant model.TenantID
	Turn   model.TurnID
	// Fence is the stream's: a message of a lower one than was seen is of a
	// writer that lost the turn.
	Fence int64
	// First is the place of the first line within the stream, from 0; a
	// follower that finds another one than it expects has missed some.
	First int64
	// Lines are the chunks, one JSON text to a line.
	Lines []byte
	// Count is how many lines there are. 0 is the stream's end.
	Count int64
}

const (
	fenceHeader = "Countersign-Fence"
	firstHeader = "Countersign-First"
	countHeader = "Countersign-Count"
)

func (c Chunks) message() *nats.Msg {
	id := string(c.Turn) + ":" + strconv.FormatInt(c.Fence, 10) + ":" + strconv.FormatInt(c.First, 10)
	if c.Count == 0 {
		id += ":end"
	}
	msg := newMsg(ChunkSubject(c.Tenant, c.Turn), id, "", c.Lines)
	for name, n := range map[string]int64{fenceHeader: c.Fence, firstHeader: c.First, countHeader: c.Count} {
		msg.Header[name] = []string{strconv.FormatInt(n, 10)}
	}
	return msg
}

func decodeChunks(tenant model.TenantID, turn model.TurnID, msg jetstream.Msg) (Chunks, error) {
	c := Chunks{Tenant: tenant, Turn: turn, Lines: msg.Data()}
	for name, n := range map[string]*int64{fenceHeader: &c.Fence, firstHeader: &c.First, countHeader: &c.Count} {
		var err error
		if *n, err = strconv.ParseInt(msg.Headers().Get(name), 10, 64); err != nil || *n < 0 {
			return c, fmt.Errorf("chunks of turn %s: header %s is no number", turn, name)
		}
	}
	return c, nil
}

// PublishChunks publishes chunks and waits until the stream has them; the
// same chunks again are kept once. An error means that it is not known.
func (b *Bus) PublishChunks(ctx context.Context, c Chunks) error {
	_, err := b.publishBatch(ctx, "chunks", []*nats.Msg{c.message()})
	return err
}

// FollowChunks gives handle every message of a turn's stream that is still
// kept, from the first on, and then each as it comes, one after the other,
// until handle says no or ctx ends. Errors: ctx's; [ErrDisconnected] and others when they
// cannot be followed further: the caller begins anew or reads the rows.
func (b *Bus) FollowChunks(ctx context.Context, tenant model.TenantID, turn model.TurnID, handle func(Chunks) bool) error {
	consumer, err := b.followChunks(ctx, ChunkSubject(tenant, turn))
	if err != nil {
		return fmt.Errorf("follow chunks: %w", plainError(err))
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(100), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second))
	if err != nil {
		return fmt.Errorf("follow chunks: %w", plainError(err))
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	defer messages.Stop()
	for {
		msg, err := messages.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the server is away; an ordered consumer is made again when it is back
		case err != nil:
			return fmt.Errorf("follow chunks: %w", plainError(err))
		}
		c, err := decodeChunks(tenant, turn, msg)
		if err != nil {
			count(b.metrics.garbage, 1, "chunks")
			continue
		}
		b.metrics.deliver("chunks", 1, time.Time{})
		if !handle(c) {
			return nil
		}
	}
}

func (b *Bus) followChunks(ctx context.Context, subject string) (jetstream.Consumer, error) {
	make := func() (jetstream.Consumer, error) {
		return b.js.OrderedConsumer(ctx, ChunksStream, jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{subject}, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: time.Minute,
		})
	}
	consumer, err := make()
	if streamMissing(err) {
		if err := b.repairStreams(ctx); err != nil {
			return nil, err
		}
		return make()
	}
	return consumer, err
}
