package status

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// scriptCall is one run of a script on one key.
type scriptCall struct {
	key  string
	args []any
}

// run runs a script for each call in one pipeline: by its hash, and once more
// in full for those that met a server without it (a fresh one, or another
// node of a cluster).
func (c *Cache) run(ctx context.Context, script *redis.Script, calls []scriptCall) ([]*redis.Cmd, error) {
	results, err := c.pipeline(ctx, script.EvalSha, calls)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return results, err
	}
	var missed []int
	var again []scriptCall
	for i, result := range results {
		if redis.HasErrorPrefix(result.Err(), "NOSCRIPT") {
			missed, again = append(missed, i), append(again, calls[i])
		}
	}
	retried, err := c.pipeline(ctx, script.Eval, again)
	for i, at := range missed {
		results[at] = retried[i]
	}
	return results, err
}

type evaluate func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

func (c *Cache) pipeline(ctx context.Context, eval evaluate, calls []scriptCall) ([]*redis.Cmd, error) {
	pipe := c.client.Pipeline()
	results := make([]*redis.Cmd, len(calls))
	for i, call := range calls {
		results[i] = eval(ctx, pipe, []string{call.key}, call.args...)
	}
	_, err := pipe.Exec(ctx)
	return results, err
}
