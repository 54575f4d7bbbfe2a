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
