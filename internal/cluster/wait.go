package cluster

import (
	"context"
	"time"
)

// Poll asks until there is no error, or ctx ends; then it gives the last one.
func Poll(ctx context.Context, ask func(ctx context.Context) error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
