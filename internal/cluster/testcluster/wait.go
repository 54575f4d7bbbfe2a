package testcluster

import (
	"context"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/cluster"
)

// Deadline bounds every wait: far beyond what anything here takes, so that a
// wait that reaches it has found a fault.
const Deadline = 60 * time.Second

// Eventually asks until there is no error.
func Eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	Within(t, Deadline, what, ask)
}

// Within is [Eventually], for what takes longer.
func Within(t *testing.T, deadline time.Duration, what string, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if err := cluster.Poll(ctx, ask); err != nil {
		t.Fatalf("%s: not within %s: %v", what, deadline, err)
	}
}
