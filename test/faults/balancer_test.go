package faults

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// balancer knows which nodes are ready, as a load balancer does: by asking
// them from time to time.
type balancer struct {
	nodes []string

	mu    sync.Mutex
	ready []string
	next  int
}

// watch asks until ctx ends.
func (b *balancer) watch(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.look(ctx)
		}
	}
}

// look asks every node once. With none that is ready the last one stays.
func (b *balancer) look(ctx context.Context) {
	var ready []string
	for _, node := range b.nodes {
		if isReady(ctx, node) {
			ready = append(ready, node)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(ready) > 0 {
		b.ready = ready
	}
}

func isReady(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, node+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// pick gives the ready nodes in turn.
func (b *balancer) pick() *url.URL {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	node, _ := url.Parse(b.ready[b.next%len(b.ready)])
	return node
}
