package failpoints

import (
	"context"
	"errors"
	"fmt"

	"github.com/countersign/countersign/pkg/client"
)

// flow is one way of a turn through the system.
type flow struct {
	name   string
	normal outcome // without a fault
	run    func(*unit) error
	// What the backend does with a continuation, and with a call of its own.
	goOn, own func(*unit, event) error
}

// The flows. Most points are on the way of an unsafe call that a person
// approves.
var (
	unsafeCall    = flow{name: "unsafe", normal: once, run: talk("unsafe"), goOn: answer}
	keyedCall     = flow{name: "keyed", normal: once, run: talk("keyed"), goOn: answer}
	slowCall      = flow{name: "slow", normal: once, run: talk("slow"), goOn: answer}
	jetStreamSink = flow{name: "jetstream", normal: once, run: toStream, goOn: answer}
	callerCall    = flow{name: "caller", normal: once, run: talk("caller"), goOn: answer, own: runOwnCall}
	callerIsGone  = flow{name: "caller-gone", normal: second, run: talk("caller"), goOn: answer, own: runOwnCallLater}
	unclaimedCall = flow{name: "unclaimed", normal: notRun, run: leaveUnclaimed, goOn: answer, own: nothing}
	heldTurn      = flow{name: "held", normal: once, run: hold, goOn: nothing}
	lapsedTurn    = flow{name: "lapsed", normal: notRun, run: lapse, goOn: answer}
	expiredCard   = flow{name: "expired", normal: notRun, run: expire, goOn: answer}
	cancelledTurn = flow{name: "cancelled", normal: notRun, run: cancel, goOn: nothing}
	stoppedCall   = flow{name: "stopped", normal: notRun, run: loseTool, goOn: answer}
	liveTurn      = flow{name: "live", normal: once, run: talk("unsafe"), goOn: answerLive}
	deadLiveTurn  = flow{name: "live-dead", normal: once, run: talk("unsafe"), goOn: answerSecondTime}
	streamedTurn  = flow{name: "streamed", normal: once, run: talkStreaming, goOn: answer}
	deafSink      = flow{name: "deaf", normal: once, run: toDeafSink, goOn: answer}
	deadSink      = flow{name: "dead-sink", normal: once, run: toDeadSink, goOn: answer}
	owedSignal    = flow{name: "owed", normal: once, run: oweSignal, goOn: answer}
	newServer     = flow{name: "imports", normal: imported, run: importServer}
)

func nothing(*unit, event) error { return nil }

func input(tool string) []client.Part {
	return []client.Part{client.TextPart("I will do it."), client.ToolPart(tool, "call_1", []byte(`{"n": 1}`))}
}

// talk is the whole of it: a person says something, the model wants a call,
// and a person approves it.
func talk(tool string) func(*unit) error {
	return func(u *unit) error {
		return errors.Join(u.say(), u.register(client.TurnRequest{Parts: input(tool)}), u.decide(true))
	}
}

func (u *unit) say() error {
	message := client.Message{ID: "said-" + u.topic, Role: "user", Parts: []client.Part{client.TextPart("Please do it.")}}
	return u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.PostMessages(ctx, u.topic, client.MessagesRequest{Messages: []client.Message{message}})
		return err
	})
}

// answer registers the next turn, with which the conversation is done.
func answer(u *unit, e event) error {
	return u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.RegisterTurn(ctx, u.topic, client.TurnRequest{
			Continues: e.Data.ContinuationID, MessageID: e.Data.MessageID, Parts: []client.Part{client.TextPart("Done.")}})
		return err
	})
}

// answerLive opens the next turn and then ends it. Of an opening that got no
// answer nobody has the token: its lease runs out, and the continuation comes
// again.
func answerLive(u *unit, e event) error {
	opened, err := u.node(u.first).OpenTurn(u.ctx, u.topic, client.OpenRequest{Continues: e.Data.ContinuationID, Lease: "8s"})
	if err != nil {
		return nil
	}
	return u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.FinishTurn(ctx, u.topic, opened.Turn.ID, client.FinishRequest{
			Fence: opened.Fence, Token: opened.Token, Parts: []client.Part{client.TextPart("Done.")}})
		return err
	})
}

// answerSecondTime opens the next turn, and is never heard of again; what
// comes after that is answered.
func answerSecondTime(u *unit, e event) error {
	if u.acted.Add(1) > 1 {
		return answer(u, e)
	}
	_, err := u.node(u.first).OpenTurn(u.ctx, u.topic, client.OpenRequest{Continues: e.Data.ContinuationID, Lease: "1s"})
	return err
}

// runOwnCall is a backend that runs a call itself, once: what it did before it
// lost an answer it remembers.
func runOwnCall(u *unit, e event) error { return u.runClaimed(e, "claim-"+u.topic) }

// runOwnCallLater is a backend of which one node claims and is gone, and
// another one does it.
func runOwnCallLater(u *unit, e event) error {
	if u.acted.CompareAndSwap(0, -1) {
		_, err := u.claim(e, "gone-"+u.topic, "1s")
		return err
	}
	return u.runClaimed(e, "claim-"+u.topic)
}

func (u *unit) claim(e event, id, lease string) (claim client.Claim, err error) {
	err = u.ask(func(ctx context.Context, c *client.Client) (err error) {
		claim, err = c.ClaimCall(ctx, e.Data.CallID, client.ClaimRequest{ClaimID: id, Lease: lease})
		if client.Is(err, "not-claimable") {
			err = nil // done before, or not due yet: it is told of again
		}
		return err
	})
	return claim, err
}

func (u *unit) runClaimed(e event, id string) error {
	claim, err := u.claim(e, id, "30s")
	if err != nil || claim.Token == "" {
		return err
	}
	if u.acted.Swap(1) < 1 {
		u.stage.ledger.note(e.Data.CallID, e.Data.CallID)
	}
	return u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.ResultCall(ctx, e.Data.CallID, client.Result{Fence: claim.Fence, Token: claim.Token, Output: []byte(`"done"`)})
		return err
	})
}

func toStream(u *unit) error {
	turn := client.TurnRequest{Parts: input("unsafe"), Sink: &client.Sink{Type: "jetstream", Name: sinkName}}
	return errors.Join(u.register(turn), u.decide(true))
}

// importServer has an MCP server's tools imported.
func importServer(u *unit) error {
	err := u.ask(func(ctx context.Context, c *client.Client) error {
		_, err := c.PutMCPServer(ctx, u.topic, client.MCPServer{Command: u.stage.workspace(u.stage.T.TempDir())})
		return err
	})
	return errors.Join(err, u.until("the tools of "+u.topic+" are imported", func(ctx context.Context) error {
		_, err := u.stage.Store.Tool(ctx, "default", u.topic+"__read_file")
		return err
	}))
}

// oweSignal lets a signal be lost.
func oweSignal(u *unit) error {
	if err := talk("unsafe")(u); err != nil {
		return err
	}
	err := u.until("the turn is done with", func(ctx context.Context) error {
		got, err := u.outcome(ctx)
		if err == nil && got != once {
			err = fmt.Errorf("it is: %s", got)
		}
		return err
	})
	if err != nil {
		return err
	}
	return u.stage.change(u.ctx, `update topics set owed = true, updated_at = updated_at - interval '10 seconds' where topic_id = $1`, u.topic)
}
