package failpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

// The flows in which something does not happen: nobody answers, claims,
// listens, or the turn is ended.

// hold is a live caller that waits for the answer and goes on by itself.
func hold(u *unit) error {
	err := u.register(client.TurnRequest{Parts: input("unsafe"), Hold: &client.Hold{Lease: "1m", OnLapse: "park"}})
	err = errors.Join(err, u.wait(time.Second), u.decide(true), u.runIs("succeeded"))
	return errors.Join(err, answer(u, u.continuation()))
}

// wait holds a request back on the turn, which renews its hold.
func (u *unit) wait(d time.Duration) error {
	return u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.Turn(ctx, u.turn, client.Wait(d))
		return err
	})
}

// continuation is what would have been delivered.
func (u *unit) continuation() (e event) {
	e.Data.ContinuationID, e.Data.MessageID = u.turn, "m-"+u.topic
	return e
}

func lapse(u *unit) error {
	return u.register(client.TurnRequest{Parts: input("unsafe"), Hold: &client.Hold{Lease: "1s", OnLapse: "deny"}})
}

func expire(u *unit) error {
	return u.register(client.TurnRequest{Parts: input("unsafe"), ExpiresIn: "1s"})
}

func cancel(u *unit) error {
	return errors.Join(u.register(client.TurnRequest{Parts: input("unsafe")}), u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.Cancel(ctx, u.topic, "")
		return err
	}))
}

// loseTool takes the tool away between its card and its run.
func loseTool(u *unit) error {
	tool := client.Tool{Effect: "unsafe", HTTP: &client.HTTPTool{URL: u.stage.ledger.URL + "/gone"}}
	put := u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.PutTool(ctx, u.topic, tool)
		return err
	})
	asked := u.register(client.TurnRequest{Parts: input(u.topic)})
	gone := u.ask(func(ctx context.Context, c *client.Client) error {
		if err := c.DeleteTool(ctx, u.topic); !client.Is(err, "not-found") {
			return err
		}
		return nil // deleted at the try before
	})
	return errors.Join(put, asked, gone, u.decide(true))
}

// leaveUnclaimed lets a day pass in which no caller claims its call.
func leaveUnclaimed(u *unit) error {
	return errors.Join(talk("caller")(u), u.runIs("queued", "stopped"), u.stage.change(u.ctx,
		`update calls set queued_at = queued_at - interval '25 hours' where call_id = $1`, u.call))
}

// toDeafSink has a backend that refuses the first delivery.
func toDeafSink(u *unit) error {
	u.deaf.Store(1)
	return talk("unsafe")(u)
}

// toDeadSink has a backend that hears nothing for a day, until a person has
// its continuation delivered again.
func toDeadSink(u *unit) error {
	u.deaf.Store(1 << 20)
	err := errors.Join(talk("unsafe")(u), u.runIs("succeeded"), u.stage.change(u.ctx,
		`update continuations set ready_at = ready_at - interval '25 hours' where turn_id = $1`, u.turn))
	if err != nil {
		return err
	}
	err = u.until("the continuation has failed", func(ctx context.Context) error {
		var state string
		err := u.stage.Rows().QueryRowContext(ctx, `select state from continuations where turn_id = $1`, u.turn).Scan(&state)
		if err == nil && state != "failed" {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	u.deaf.Store(0)
	return errors.Join(err, u.ask(func(ctx context.Context, c *client.Client) error {
		if _, err := c.Redrive(ctx, u.turn); !client.Is(err, "continuation-accepted") {
			return err
		}
		return nil // redriven at the try before, and gone on already
	}))
}
