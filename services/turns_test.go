package services

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/client"
)

// What tests about one part of the way do to get there.

// settled registers a turn whose only call cannot run, so that nobody is
// asked and its continuation is ready at once.
func (d *deployment) settled(topic string, sink client.Sink) client.Turn {
	d.T.Helper()
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: "m", Sink: &sink,
		Parts: []client.Part{client.ToolPart("nobody_has_this", "c", json.RawMessage(`{}`))}})
	if err != nil {
		d.T.Errorf("register: %v", err)
		return client.Turn{}
	}
	if out.Turn.State != "continuing" {
		d.T.Errorf("registered: %+v", out.Turn)
	}
	return out.Turn
}

// accept goes on from a turn, which makes its topic done.
func (d *deployment) accept(topic string, turn client.Turn) {
	d.T.Helper()
	must(d.T, second(d.Node(0).RegisterTurn(d.T.Context(), topic,
		client.TurnRequest{Continues: turn.ID, Parts: []client.Part{client.TextPart("Done.")}})))
}

// continuation waits until a turn's continuation is in a state.
func (d *deployment) continuation(turn, state string) (found client.Continuation) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the continuation is "+state, func(ctx context.Context) error {
		topic, err := testcluster.One[string](ctx, d.Deployment, `select topic_id from turns where turn_id = $1`, turn)
		if err != nil {
			return err
		}
		page, err := d.Node(0).Continuations(ctx, client.ContinuationFilter{Topic: topic})
		if err != nil {
			return err
		}
		for _, found = range page.Items {
			if found.Turn == turn && found.State == state {
				return nil
			}
		}
		return fmt.Errorf("continuations: %+v", page.Items)
	})
	return found
}

// status waits until a topic has a status.
func (d *deployment) status(topic, status string) {
	d.T.Helper()
	testcluster.Eventually(d.T, topic+" is "+status, func(ctx context.Context) error {
		got, err := d.Node(0).Topic(ctx, topic)
		if err == nil && got.Status != status {
			err = fmt.Errorf("it is %s", got.Status)
		}
		return err
	})
}

// secret is what webhooks are signed with now.
func (d *deployment) secret() string {
	d.T.Helper()
	s, err := d.Node(0).SigningSecret(d.T.Context())
	must(d.T, err)
	return s.Secret
}
