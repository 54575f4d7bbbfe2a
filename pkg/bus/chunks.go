package bus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/countersign/countersign/pkg/failpoint"
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

func decodeChunks(tenant model.TenantID, turn model.TurnID, header nats.Header, lines []byte) (Chunks, error) {
	c := Chunks{Tenant: tenant, Turn: turn, Lines: lines}
	for name, n := range map[string]*int64{fenceHeader: &c.Fence, firstHeader: &c.First, countHeader: &c.Count} {
		var err error
		if *n, err = strconv.ParseInt(header.Get(name), 10, 64); err != nil || *n < 0 {
			return c, fmt.Errorf("chunks of turn %s: header %s is no number", turn, name)
		}
	}
	return c, nil
}

// PublishChunks publishes chunks and waits until the stream has them; the
// same chunks again are kept once. An error means that it is not known.
func (b *Bus) PublishChunks(ctx context.Context, c Chunks) error {
	if err := failpoint.Hit(ctx, failpoint.ShowBeforePublish); err != nil {
		return err
	}
	_, err := b.publishBatch(ctx, "chunks", []*nats.Msg{c.message()})
	return err
}
