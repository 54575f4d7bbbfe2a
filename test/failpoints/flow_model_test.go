package failpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/pkg/client"
)

// newProvider is what the workers' model loop asks: a conversation that is to
// be refused is, the first time. It gives the workers' settings.
func newProvider(t *testing.T) []string {
	t.Helper()
	var asked sync.Map
	server := httptest.NewServer(scripted.New(func(r scripted.Request) scripted.Answer {
		topic := r.Messages[0].Text()
		if _, again := asked.LoadOrStore(topic, true); !again && strings.HasPrefix(topic, refusedModel.name) {
			return scripted.Answer{Status: 401, Body: `{}`}
		}
		return scripted.Stream(scripted.Say("Done."), scripted.End("stop"))
	}))
	t.Cleanup(server.Close)
	return []string{"COUNTERSIGN_MODEL_BASE_URL=" + server.URL, "COUNTERSIGN_MODEL_NAME=m", "COUNTERSIGN_MODEL_POLL=500ms"}
}

// talkToModel is talk with the model loop, of which a stream that nobody renews
// is lost soon, and an answer that failed is asked for again.
func talkToModel(u *unit) error {
	turn := client.TurnRequest{Parts: input("unsafe"), Sink: &client.Sink{Type: "model", System: u.topic}}
	if err := errors.Join(u.register(turn), u.decide(true)); err != nil {
		return err
	}
	return u.until("the model has answered", func(ctx context.Context) error {
		err := u.stage.change(ctx, `update turns set live_until = clock_timestamp()
			where topic_id = $1 and live_until < clock_timestamp() + interval '24 seconds'`, u.topic) // 6 s of 30 without a word
		if err != nil {
			return err
		}
		var state string
		if err := u.stage.Rows().QueryRowContext(ctx, `select state from continuations where turn_id = $1`, u.turn).Scan(&state); err != nil {
			return err
		}
		if state == "failed" {
			_, err = u.node(1-u.first).Redrive(ctx, u.turn)
			return errors.Join(err, errors.New("it was redriven"))
		}
		got, err := u.outcome(ctx)
		if err == nil && got != once {
			err = fmt.Errorf("it is: %s", got)
		}
		return err
	})
}
