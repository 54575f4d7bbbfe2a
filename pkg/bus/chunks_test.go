package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/model"
)

// Whoever follows a turn has every chunk of it in order, from the first on,
// once, however late it came and however often it was published.
func TestChunksArriveInOrderAndWhole(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	writer, node := ready(t, server), ready(t, server)
	turn, other := model.NewTurnID(), model.NewTurnID()
	publish := func(c Chunks) {
		t.Helper()
		if err := writer.PublishChunks(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	const n = 50
	chunk := func(i int64) Chunks {
		return Chunks{Tenant: "default", Turn: turn, Fence: 2, First: i, Count: 1, Lines: fmt.Appendf(nil, "line %d\n", i)}
	}
	for i := range int64(n / 2) {
		publish(chunk(i))
		publish(chunk(i))
		publish(Chunks{Tenant: "default", Turn: other, Fence: 2, First: i, Count: 1, Lines: []byte("another's\n")})
		publish(Chunks{Tenant: "another", Turn: turn, Fence: 2, First: i, Count: 1, Lines: []byte("another's\n")})
	}
	half, published := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(published)
		<-half
		for i := range int64(n) {
			if i >= n/2 {
				publish(chunk(i))
			}
		}
		publish(Chunks{Tenant: "default", Turn: turn, Fence: 2, First: n})
	}()
	var text strings.Builder
	err := node.FollowChunks(t.Context(), "default", turn, func(c Chunks) bool {
		text.Write(c.Lines)
		if c.First == n/2-1 {
			close(half)
		}
		return c.Count > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	<-published
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	if text.String() != want.String() {
		t.Errorf("followed:\n%s", text.String())
	}
}

// A follower ends with its context, also while nothing comes.
func TestFollowingChunksEnds(t *testing.T) {
	t.Parallel()
	node := ready(t, startServer(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- node.FollowChunks(ctx, "default", model.NewTurnID(), func(Chunks) bool { return true })
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("it ended without its context's error")
	}
}

// said is a turn of which n chunks are published, one to a message.
type said struct {
	t      *testing.T
	writer *testBus
	turn   model.TurnID
	n      int64
}

func (s *said) more(n int) {
	s.t.Helper()
	for range n {
		c := Chunks{Tenant: "default", Turn: s.turn, Fence: 1, First: s.n, Count: 1, Lines: fmt.Appendf(nil, "%d\n", s.n)}
		if err := s.writer.PublishChunks(s.t.Context(), c); err != nil {
			s.t.Fatal(err)
		}
		s.n++
	}
}

// follows gives the places of the chunks as they come to a node, and goes on
// only when each is taken. It begins anew where it cannot be followed further.
func (s *said) follows(node *testBus) <-chan int64 {
	ctx, cancel := context.WithCancel(s.t.Context())
	places, ended := make(chan int64), make(chan struct{})
	go func() {
		defer close(ended)
		for next := int64(0); ctx.Err() == nil; {
			_ = node.FollowChunks(ctx, "default", s.turn, func(c Chunks) bool {
				if c.First < next {
					return true
				}
				next = c.First + 1
				select {
				case places <- c.First:
				case <-ctx.Done():
				}
				return true
			})
		}
	}()
	s.t.Cleanup(func() { cancel(); <-ended })
	return places
}

// A follower that takes its time, or was cut off, misses messages and reads
// them again: each comes once, in order.
func TestChunksThatWereMissedAreReadAgain(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	relay := startRelay(t, server)
	s := &said{t: t, writer: ready(t, server), turn: model.NewTurnID()}
	node := connect(t, relay.url())
	eventually(t, "connected", node.Connected)
	s.more(1)
	places := s.follows(node)
	want := int64(0)
	takes := func(until int64) {
		t.Helper()
		for ; want < until; want++ {
			select {
			case got := <-places:
				if got != want {
					t.Fatalf("chunk %d came, want %d", got, want)
				}
			case <-t.Context().Done():
				t.Fatalf("chunk %d did not come", want)
			}
		}
	}
	takes(1)
	s.more(2*followBuffer + 1) // nobody takes them: some are dropped
	takes(followBuffer)
	s.more(1)
	takes(s.n)

	relay.freeze()
	s.more(5)
	relay.cut()
	takes(s.n)
	s.more(1)
	takes(s.n)
}
