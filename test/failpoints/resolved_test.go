package failpoints

import (
	"context"
	"errors"

	"github.com/countersign/countersign/pkg/client"
)

// resolvedCall is a call whose tool does it and cannot say so, until a person
// does.
var resolvedCall = flow{name: "resolved", normal: once, run: resolve, goOn: answer}

func resolve(u *unit) error {
	err := errors.Join(talk("broken")(u), u.runIs("outcome-unknown"), u.stage.change(u.ctx,
		`update calls set lease_until = lease_until - interval '1 hour' where call_id = $1`, u.call)) // no attempt can be alive
	return errors.Join(err, u.ask(func(ctx context.Context, _ *client.Client) error { return u.resolve(ctx) }))
}

// resolve says that it happened, to one node and then to the other: the same
// word again is nothing new.
func (u *unit) resolve(ctx context.Context) error {
	u.first = 1 - u.first
	word := map[string]any{"outcome": "happened", "output": "done", "evidence": "It is in the ledger."}
	return u.send(ctx, 1-u.first, "/v1/calls/"+u.call+"/resolution", u.stage.Key, word)
}
