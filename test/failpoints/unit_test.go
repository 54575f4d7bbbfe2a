package failpoints

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/internal/cluster"
	"github.com/countersign/countersign/pkg/client"
)

// unit is one turn that goes through the system, in a topic of its own.
type unit struct {
	stage *stage
	flow  flow
	ctx   context.Context
	topic string
	first int // the api node that is asked first
	turn  string
	call  string
	came  outcome // to which it came

	deaf   atomic.Int32 // deliveries that the backend still refuses
	acted  atomic.Int32 // what a backend does once only
	failed atomic.Pointer[error]
}

var topics atomic.Int64

// begin makes a unit. ctx is the cell's.
func (s *stage) begin(ctx context.Context, f flow, first int) *unit {
	u := &unit{stage: s, flow: f, ctx: ctx, first: first, topic: fmt.Sprintf("%s-%d", f.name, topics.Add(1))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.units[u.topic] = u
	return u
}

func (u *unit) hears() bool { return u.deaf.Add(-1) < 0 }

func (u *unit) fail(err error) { u.failed.CompareAndSwap(nil, &err) }

// patience bounds one try: a stopped node does not answer at all.
const patience = 5 * time.Second

// ask asks until it is answered, first the one node and then the other, as a
// client does that knows both. What it asks must bear being asked twice.
func (u *unit) ask(do func(context.Context, *client.Client) error) error {
	node := u.first
	var refused error
	err := cluster.Poll(u.ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := do(ctx, u.node(node))
		node = 1 - node
		if definite(err) {
			refused = err
			return nil
		}
		return err
	})
	return errors.Join(err, refused)
}

func (u *unit) node(i int) *client.Client {
	return client.New(u.stage.API[i].URL, u.stage.Key, client.WithTries(1), client.WithActor("user:bob"))
}

// definite tells whether an answer says that asking again is of no use.
func definite(err error) bool {
	problem, answered := errors.AsType[*client.Problem](err)
	return answered && problem.Status < 500
}

// register registers the unit's turn, and keeps its ids.
func (u *unit) register(turn client.TurnRequest) error {
	if turn.MessageID == "" {
		turn.MessageID = "m-" + u.topic
	}
	if turn.Sink == nil {
		turn.Sink = &client.Sink{Type: "webhook", URL: u.stage.backend.URL}
	}
	return u.ask(func(ctx context.Context, c *client.Client) error {
		out, err := c.RegisterTurn(ctx, u.topic, turn)
		if err == nil {
			u.turn = out.Turn.ID
			if len(out.Turn.Calls) == 1 {
				u.call = out.Turn.Calls[0].ID
			}
		}
		return err
	})
}

// decide answers the unit's card.
func (u *unit) decide(approved bool) error {
	decision := client.Decision{Approved: approved, DecisionID: "d-" + u.topic}
	return u.ask(func(ctx context.Context, c *client.Client) error {
		call, err := c.Call(ctx, u.call)
		if err != nil {
			return err
		}
		_, err = c.Decide(ctx, call.ApprovalID, decision)
		return err
	})
}

// until polls the rows.
func (u *unit) until(what string, ask func(context.Context) error) error {
	if err := cluster.Poll(u.ctx, ask); err != nil {
		return fmt.Errorf("%s: not in time: %w", what, err)
	}
	return nil
}

// runIs waits until the unit's run is in one of some states.
func (u *unit) runIs(states ...string) error {
	return u.until(fmt.Sprintf("the run of %s is one of %v", u.topic, states), func(ctx context.Context) error {
		var run string
		err := u.stage.Rows().QueryRowContext(ctx, `select run from calls where call_id = $1`, u.call).Scan(&run)
		if err != nil {
			return err
		}
		for _, s := range states {
			if run == s {
				return nil
			}
		}
		return fmt.Errorf("it is %s", run)
	})
}
