package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// publishAttempts bounds the tries of one batch; after that a sweep repeats
// it. The second covers a stream that was missing, the third a slow leader.
const publishAttempts = 3

// publishBatch publishes messages to their streams, all at once, and waits for the
// acknowledgements until ctx ends (timing.publish when it has no deadline).
// It tells for each whether it was acknowledged; a duplicate is. The error is
// the first of those that were not; their outcome is unknown, and publishing
// them again under the same id is harmless.
func (b *Bus) publishBatch(ctx context.Context, kind string, msgs []*nats.Msg) (acked []bool, err error) {
	ctx, cancel := withDefaultTimeout(ctx, b.opts.timing.publish)
	defer cancel()
	acked = make([]bool, len(msgs))
	pending := make([]int, len(msgs))
	for i := range pending {
		pending[i] = i
	}
	for attempt := range publishAttempts {
		if attempt > 0 && !b.mayRetry(ctx, attempt, err) {
			break
		}
		if pending, err = b.publishOnce(ctx, msgs, pending, acked); len(pending) == 0 {
			break
		}
	}
	count(b.metrics.published, len(msgs)-len(pending), kind)
	count(b.metrics.failures, len(pending), "publish "+kind)
	if err != nil {
		err = fmt.Errorf("publish %s: %d of %d not acknowledged: %w", kind, len(pending), len(msgs), err)
	}
	return acked, err
}

// mayRetry prepares another attempt after err, unless it is hopeless.
func (b *Bus) mayRetry(ctx context.Context, attempt int, err error) bool {
	if ctx.Err() != nil || !b.Connected() || errors.Is(err, ErrDisconnected) || errors.Is(err, nats.ErrMaxPayload) {
		return false
	}
	if streamMissing(err) {
		if b.repairStreams(ctx) != nil {
			b.askRepair()
			return false
		}
	}
	select {
	case <-time.After(time.Duration(attempt) * 50 * time.Millisecond): // a leader election, or an id "in process"
		return true
	case <-ctx.Done():
		return false
	}
}

// publishOnce publishes those of msgs whose index is pending and gives back the
// indexes that were not acknowledged.
func (b *Bus) publishOnce(ctx context.Context, msgs []*nats.Msg, pending []int, acked []bool) (left []int, err error) {
	futures := make([]jetstream.PubAckFuture, len(pending))
	errs := make([]error, len(pending))
	for i, at := range pending {
		if !b.Connected() {
			errs[i] = ErrDisconnected
			continue
		}
		// The library's own retries cannot make a missing stream; ours can.
		futures[i], errs[i] = b.js.PublishMsgAsync(msgs[at], jetstream.WithRetryAttempts(0))
	}
	for i, at := range pending {
		if errs[i] == nil {
			errs[i] = await(ctx, futures[i])
		}
		if errs[i] == nil {
			acked[at] = true
			continue
		}
		left = append(left, at)
		if err == nil {
			err = plainError(errs[i])
		}
	}
	return left, err
}

func await(ctx context.Context, future jetstream.PubAckFuture) error {
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// plainError gives the client's several words for "no connection" one name.
func plainError(err error) error {
	for _, gone := range []error{nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed,
		nats.ErrConnectionReconnecting, nats.ErrHeadersNotSupported} {
		if errors.Is(err, gone) {
			return ErrDisconnected
		}
	}
	return err
}

func withDefaultTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// newMsg makes a message with an id (none if empty) and the trace it belongs to.
func newMsg(subject, id, traceparent string, body []byte) *nats.Msg {
	msg := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}}
	if id != "" {
		msg.Header[jetstream.MsgIDHeader] = []string{id}
	}
	if traceparent != "" {
		HeaderCarrier(msg.Header).Set(traceparentKey, traceparent)
	}
	return msg
}
