package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Heartbeat is what a worker says about itself, every few seconds. It is for
// people and dashboards: leases in rows decide who is alive.
type Heartbeat struct {
	// Worker is unique among running workers.
	Worker  string    `json:"worker"`
	Version string    `json:"version"`
	Slots   int       `json:"slots"`
	Running int       `json:"running"`
	At      time.Time `json:"at"`
}

// PublishHeartbeat replaces the worker's last heartbeat.
func (b *Bus) PublishHeartbeat(ctx context.Context, heartbeat Heartbeat) error {
	body, err := json.Marshal(heartbeat)
	if err != nil {
		return fmt.Errorf("encode a heartbeat: %w", err)
	}
	_, err = b.publishBatch(ctx, "heartbeat", []*nats.Msg{newMsg(HeartbeatSubject(heartbeat.Worker), "", "", body)})
	return err
}

// Heartbeats lists the last heartbeat of every worker that was heard within
// the last minute, by worker.
func (b *Bus) Heartbeats(ctx context.Context) ([]Heartbeat, error) {
	if !b.Connected() {
		return nil, fmt.Errorf("list the heartbeats: %w", ErrDisconnected)
	}
	stream, err := b.js.Stream(ctx, HeartbeatsStream)
	if err != nil {
		return nil, fmt.Errorf("list the heartbeats: %w", plainError(err))
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(heartbeatPrefix+"*"))
	if err != nil {
		return nil, fmt.Errorf("list the heartbeats: %w", plainError(err))
	}
	var heartbeats []Heartbeat
	for subject := range info.State.Subjects {
		msg, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) { // it aged out just now
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list the heartbeats: %w", plainError(err))
		}
		var heartbeat Heartbeat
		if json.Unmarshal(msg.Data, &heartbeat) != nil || HeartbeatSubject(heartbeat.Worker) != subject {
			count(b.metrics.garbage, 1, "heartbeat")
			continue
		}
		heartbeats = append(heartbeats, heartbeat)
	}
	slices.SortFunc(heartbeats, func(a, b Heartbeat) int { return cmp.Compare(a.Worker, b.Worker) })
	return heartbeats, nil
}
