package failpoints

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/countersign/countersign/pkg/client"
)

// spoken is what a model says that wants an unsafe call.
var spoken = []string{
	`{"type":"text-start","id":"t"}`, `{"type":"text-delta","id":"t","delta":"I will do it."}`, `{"type":"text-end","id":"t"}`,
	`{"type":"tool-input-available","toolCallId":"call_1","toolName":"unsafe","input":{"n": 1}}`,
	`{"type":"finish","finishReason":"tool-calls"}`,
}

// talkStreaming is talk of a backend whose model's words go through
// Countersign.
func talkStreaming(u *unit) error {
	return errors.Join(u.say(), u.speak(), u.decide(true))
}

// speak opens turns and streams to them until one stands with its call.
// Whoever lost a turn to a lease that it does not hold waits for its end.
func (u *unit) speak() error {
	for n := 0; u.ctx.Err() == nil && u.call == ""; n++ {
		open, err := u.open(fmt.Sprintf("m-%s-%d", u.topic, n))
		if err != nil {
			return err
		}
		if err := u.streamTo(open); err != nil {
			return err
		}
	}
	return u.ctx.Err()
}

// open opens a live turn. One whose opening got no answer is superseded by the
// next try, under another message.
func (u *unit) open(message string) (open client.OpenAnswer, err error) {
	tries := 0
	err = u.ask(func(ctx context.Context, c *client.Client) (err error) {
		tries++
		open, err = c.OpenTurn(ctx, u.topic, client.OpenRequest{MessageID: fmt.Sprintf("%s-%d", message, tries), Lease: "8s", WhileOpen: "supersede",
			Sink: &client.Sink{Type: "webhook", URL: u.stage.backend.URL}})
		return err
	})
	return open, err
}

// streamTo streams to a turn, from its beginning each time, until the stream
// was taken whole or the turn is not this writer's any more; then it waits
// until the turn does not stream, and keeps the ids that it came to.
func (u *unit) streamTo(open client.OpenAnswer) error {
	err := u.ask(func(ctx context.Context, c *client.Client) error {
		s, err := c.StreamTurn(ctx, u.topic, open)
		if err != nil {
			return err
		}
		defer s.Close()
		open.Fence = s.Fence
		return takenWhole(s)
	})
	if err != nil && !client.Is(err, "fence-lost") && !client.Is(err, "turn-ended") {
		return err
	}
	return u.until("the turn has been streamed", func(ctx context.Context) error {
		t, err := u.node(1-u.first).Turn(ctx, open.Turn.ID)
		if err == nil && t.State == "streaming" {
			err = errors.New("it streams")
		}
		if err == nil && len(t.Calls) == 1 {
			u.turn, u.call = t.ID, t.Calls[0].ID
		}
		return err
	})
}

// takenWhole sends everything and reads the answers to their end.
func takenWhole(s *client.TurnStream) error {
	go func() {
		for _, chunk := range spoken {
			if s.Send(json.RawMessage(chunk)) != nil {
				return // the answer says why
			}
		}
	}()
	for {
		answer, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		var c struct{ Type, ErrorText string }
		if err := json.Unmarshal(answer, &c); err != nil || c.Type == "error" {
			return errors.Join(err, errors.New(c.ErrorText))
		}
	}
}
