package bus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/failpoint"
)

// The streams.
const (
	RunsStream          = "RUNS"
	ModelStream         = "MODEL"
	ContinuationsStream = "CONTINUATIONS"
	HeartbeatsStream    = "HEARTBEATS"
	ChunksStream        = "CHUNKS"
)

// streamConfigs is what each stream must be.
//
// RUNS: a hint that is older than an hour is worthless, since the sweep has
// published newer ones; ids are refused for just as long as they are stored,
// so a restart of the server forgets none.
//
// MODEL: as RUNS, of continuations that the model loop answers.
//
// CONTINUATIONS: a backend that was away for a day still finds what it missed
// (after that the continuation has failed and waits for a redrive). Ids are
// kept for an hour only: a second delivery has an id of its own, the window
// covers the retries of one delivery, and the table lives in the server's memory.
//
// HEARTBEATS: the last word of each worker, gone a minute after it fell
// silent; in memory, since the next one comes within seconds.
//
// CHUNKS: what live turns say, until they are over and their rows say it; an
// hour is far longer than a turn streams.
//
// MaxMsgs bounds the disk instead of MaxBytes, which would reserve space up
// front and refuse the stream on a small disk. What a full stream drops is
// the oldest hint, and rows bring it back.
func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        RunsStream,
			Description: "Run hints: ids of calls that are queued. May be purged or deleted at any time; refilled from rows.",
			Subjects:    []string{runPrefix + "*"},
			MaxAge:      time.Hour, Duplicates: time.Hour, MaxMsgs: 2_000_000, MaxMsgSize: 4 << 10,
			Storage: jetstream.FileStorage,
		},
		{
			Name:        ModelStream,
			Description: "Model hints: ids of turns that the model loop is to go on from. May be purged or deleted at any time; refilled from rows.",
			Subjects:    []string{modelPrefix + "*"},
			MaxAge:      time.Hour, Duplicates: time.Hour, MaxMsgs: 2_000_000, MaxMsgSize: 4 << 10,
			Storage: jetstream.FileStorage,
		},
		{
			Name:        ContinuationsStream,
			Description: "Continuations and call.ready for JetStream sinks. May be purged or deleted; delivered again from rows.",
			Subjects:    []string{continuationPrefix + "*.*"},
			MaxAge:      24 * time.Hour, Duplicates: time.Hour, MaxMsgs: 5_000_000, MaxMsgSize: 64 << 10,
			Storage: jetstream.FileStorage,
		},
		{
			Name:        HeartbeatsStream,
			Description: "The last heartbeat of every worker.",
			Subjects:    []string{heartbeatPrefix + "*"},
			MaxAge:      time.Minute, Duplicates: time.Minute, MaxMsgs: -1, MaxMsgsPerSubject: 1, MaxMsgSize: 4 << 10,
			Storage: jetstream.MemoryStorage, AllowDirect: true,
		},
		{
			Name:        ChunksStream,
			Description: "Streams of live turns. May be purged or deleted; who misses chunks reads the committed turn.",
			Subjects:    []string{chunkPrefix + "*.*"},
			MaxAge:      time.Hour, Duplicates: 2 * time.Minute, MaxMsgs: 2_000_000, MaxMsgSize: 2 << 20,
			Storage: jetstream.FileStorage,
		},
	}
}

// EnsureStreams makes the streams that do not exist and mends those that
// differ from what they must be; what it does not care about (placement,
// compression, metadata) stays as the operator set it. It may be called by
// any number of processes at once and as often as one likes.
func (b *Bus) EnsureStreams(ctx context.Context) error {
	if !b.Connected() {
		return fmt.Errorf("make the streams: %w", ErrDisconnected)
	}
	if err := failpoint.Hit(ctx, failpoint.StreamsBeforeMake); err != nil {
		return err
	}
	for _, config := range b.streamConfigs() {
		if err := b.ensureStream(ctx, config); err != nil {
			return fmt.Errorf("make stream %s: %w; JetStream must be enabled, and the account allowed to make it", config.Name, err)
		}
	}
	return nil
}

func (b *Bus) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.timing.api)
	defer cancel()
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		want.Replicas = max(1, b.opts.replicas)
		_, err = b.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	have := stream.CachedInfo().Config
	mended := b.mend(have, want)
	if sameConfig(have, mended) {
		return nil
	}
	_, err = b.js.UpdateStream(ctx, mended)
	return err
}

func sameConfig(a, b jetstream.StreamConfig) bool { return reflect.DeepEqual(a, b) }

// mend lays what a stream must be over what it is.
func (b *Bus) mend(have, want jetstream.StreamConfig) jetstream.StreamConfig {
	mended := have
	mended.Description, mended.Subjects = want.Description, want.Subjects
	mended.Retention, mended.Storage, mended.Discard = want.Retention, want.Storage, want.Discard
	mended.MaxAge, mended.Duplicates, mended.MaxMsgs = want.MaxAge, want.Duplicates, want.MaxMsgs
	mended.MaxMsgSize, mended.AllowDirect = want.MaxMsgSize, want.AllowDirect
	mended.NoAck, mended.Sealed = want.NoAck, want.Sealed
	if want.MaxMsgsPerSubject != 0 {
		mended.MaxMsgsPerSubject = want.MaxMsgsPerSubject
	}
	if b.opts.replicas > 0 {
		mended.Replicas = b.opts.replicas
	}
	return mended
}

// repair bounds how often the streams are looked at.
type repair struct {
	asked chan struct{} // somebody found a stream missing
	gate  chan struct{} // one repair at a time; a channel, so that waiting for it can end
	last  time.Time     // guarded by gate
}

func newRepair() repair { return repair{asked: make(chan struct{}, 1), gate: make(chan struct{}, 1)} }

// askRepair lets [Bus.Run] look at the streams soon.
func (b *Bus) askRepair() { wake(b.repair.asked) }

// repairStreams is [Bus.EnsureStreams] for those who met a missing stream:
// one at a time, and a second one within timing.repair trusts the first.
func (b *Bus) repairStreams(ctx context.Context) error {
	select {
	case b.repair.gate <- struct{}{}:
		defer func() { <-b.repair.gate }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Since(b.repair.last) < b.opts.timing.repair {
		return nil
	}
	if err := b.EnsureStreams(ctx); err != nil {
		return err
	}
	b.repair.last = time.Now()
	return nil
}

// Run keeps the streams in being until ctx ends: it makes them once the
// server can be reached, and again whenever it comes back or somebody found
// one missing. It returns nil when ctx ends.
func (b *Bus) Run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.repair.asked:
		case <-pause.C:
		}
		switch err := b.repairStreams(ctx); {
		case err == nil || errors.Is(err, ErrDisconnected): // coming back asks again
		case ctx.Err() == nil:
			b.log.Warn("the streams cannot be made, trying again", "error", err)
			pause.Reset(2 * b.opts.timing.repair)
		}
	}
}

// streamMissing tells whether err is what a publish, an acknowledgement or a
// request meets when the stream, or JetStream as a whole, is not there.
func streamMissing(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrStreamNotFound)
}
