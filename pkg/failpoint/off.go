//go:build !failpoints

package failpoint

import "context"

// Hit is the place of a point. The error is what the place fails with; nil
// where no point is armed.
func Hit(context.Context, Point) error { return nil }

// BeforeCommit is [Hit] for the gap before a transaction's commit.
func BeforeCommit(context.Context, string) error { return nil }

// AfterCommit is [Hit] for the gap after a transaction's commit.
func AfterCommit(context.Context, string) error { return nil }
