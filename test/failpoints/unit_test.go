package failpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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

	// Of a chat: how many answers each of its messages is to get, and what is
	// shown of its open card.
	said                        map[string]int
	message, toolCall, approval string

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
	return u.askNode(func(ctx context.Context, node int) error { return do(ctx, u.node(node)) })
}

// askNode is [unit.ask] of something that no client has a method for.
func (u *unit) askNode(do func(ctx context.Context, node int) error) error {
	node := u.first
	var refused error
	err := cluster.Poll(u.ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := do(ctx, node)
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

// send posts something to a node, with a key.
func (u *unit) send(ctx context.Context, node int, path, key string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.stage.API[node].URL+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(response.Body)
		return &client.Problem{Status: response.StatusCode, Detail: path + " is refused: " + string(why)}
	}
	return nil
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
