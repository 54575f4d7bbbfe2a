package streamed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/client"
)

// speak lets streams speak at their rate, waits until their windows have all
// of it, and fills in what that took.
func (n *node) speak(ctx context.Context, speaking []*stream, o Options, r *Report) error {
	before, err := n.store.NextTransactionID(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	count := int(o.For.Seconds() * float64(o.Rate))
	if err := n.sayAll(ctx, speaking, count, time.Second/time.Duration(o.Rate)); err != nil {
		return err
	}
	var late []time.Duration
	for _, s := range speaking {
		if err := <-s.ended; err != nil {
			return fmt.Errorf("a window: %w", err)
		}
		r.Received += int(s.got.Load())
		late = append(late, s.late...)
	}
	took := time.Since(begin)
	after, err := n.store.NextTransactionID(ctx)
	if err != nil {
		return err
	}
	r.Sent = count * len(speaking)
	r.PerSecond = float64(r.Received) / took.Seconds()
	r.Writes = after - before - int64(2*len(speaking)) // each turn was begun and ended
	if r.Received != r.Sent {
		return fmt.Errorf("%d chunks were sent and %d received", r.Sent, r.Received)
	}
	slices.Sort(late)
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	r.DelayP50, r.DelayP99 = milliseconds(late[len(late)/2]), milliseconds(late[len(late)*99/100])
	return nil
}

func (n *node) sayAll(ctx context.Context, speaking []*stream, count int, every time.Duration) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range speaking {
		g.Go(func() error { return n.say(ctx, s, count, every) })
	}
	return g.Wait()
}

// say streams a text to a turn at a rate, and ends it.
func (n *node) say(ctx context.Context, s *stream, count int, every time.Duration) error {
	out, err := n.client.StreamTurn(ctx, s.topic, s.turn)
	if err != nil {
		return err
	}
	defer out.Close()
	refused := make(chan error, 1)
	go func() { refused <- answers(out) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	if err := text(out, count, func() { <-tick.C }); err != nil {
		return err
	}
	for _, last := range []string{`{"type":"text-end","id":"t"}`, `{"type":"finish","finishReason":"stop"}`} {
		if err := out.Send(json.RawMessage(last)); err != nil {
			return err
		}
	}
	return <-refused
}

// text sends the beginning of a text and its chunks, each of which says when
// it was sent.
func text(out *client.TurnStream, count int, wait func()) error {
	err := out.Send(json.RawMessage(`{"type":"text-start","id":"t"}`))
	for i := 0; i < count && err == nil; i++ {
		wait()
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		err = out.Send(json.RawMessage(`{"type":"text-delta","id":"t","delta":"` + now + `"}`))
	}
	return err
}

// answers waits for the end of what the node says of a stream, which is
// nothing where all is well.
func answers(s *client.TurnStream) error {
	answer, err := s.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the node answered %s", answer)
}

// resume says a long message, all but its end, and measures how long a window
// that comes then needs to be told all of it.
func (n *node) resume(ctx context.Context, chunks int) (time.Duration, error) {
	s, err := n.live(ctx, "long")
	if err != nil {
		return 0, err
	}
	if err := n.watch(ctx, s); err != nil {
		return 0, err
	}
	if err := n.sayOpen(ctx, s, chunks); err != nil {
		return 0, err
	}
	if err := s.has(ctx, chunks); err != nil {
		return 0, err
	}
	again := &stream{topic: s.topic, ended: make(chan error, 1)}
	begin := time.Now()
	if err := n.watch(ctx, again); err != nil {
		return 0, err
	}
	err = again.has(ctx, chunks)
	return time.Since(begin), err
}

// sayOpen says a text and does not end it.
func (n *node) sayOpen(ctx context.Context, s *stream, count int) error {
	out, err := n.client.StreamTurn(ctx, s.topic, s.turn)
	if err != nil {
		return err
	}
	n.stops = append(n.stops, func() { _ = out.Close() })
	return text(out, count, func() {})
}

// has waits until a window was told so many chunks.
func (s *stream) has(ctx context.Context, chunks int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.got.Load() < int64(chunks) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.ended:
			return errors.Join(errors.New("a window ended before it was told all"), err)
		case <-tick.C:
		}
	}
	return nil
}
