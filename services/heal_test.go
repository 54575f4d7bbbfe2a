package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/cluster/testcluster"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// I8: with NATS switched off all of it happens, only slower: what a signal or
// a hint says, a sweep finds in the rows.
func TestI8TheNineStepsWithoutNATS(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	must(t, d.NATS.Close())
	theNineSteps(t, d)
	windows := d.watch("chat/42")
	d.equalsPostgres(windows)
	d.breaksNothing()
}

// I8: the store of JetStream may be wiped and its consumer deleted while
// workers and continuers run: they make both anew, hints reach workers that
// never look at the rows, and a continuation reaches its sink.
func TestI8AWipedJetStreamHeals(t *testing.T) {
	t.Parallel()
	d := servers(t)
	d.StartAPI(0)
	d.StartContinuer(0)
	d.StartWorker(0, "COUNTERSIGN_WORKER_POLL=1h")
	d.Ready()
	tool := d.allowed("sweep_floor", "unsafe", says(http.StatusOK, `1`))
	d.runIs(d.startFor("jetstream", "before", "sweep_floor"), "succeeded")

	must(t, d.NATS.Close())
	must(t, d.NATS.Wipe())
	must(t, d.NATS.Start(t.Context()))
	d.runIs(d.startFor("jetstream", "wiped", "sweep_floor"), "succeeded")
	js := d.jetstream()
	d.carries(js, "wiped")

	must(t, js.DeleteConsumer(t.Context(), bus.RunsStream, "workers"))
	d.runIs(d.startFor("jetstream", "unconsumed", "sweep_floor"), "succeeded")
	must(t, js.DeleteStream(t.Context(), bus.ContinuationsStream))
	d.runIs(d.startFor("jetstream", "unstreamed", "sweep_floor"), "succeeded")
	d.carries(js, "unstreamed")
	if n := len(tool.ran()); n != 4 {
		t.Errorf("it ran %d times, want 4", n)
	}
	d.holds()
}

// startFor is start with a sink of a type; it gives its one call.
func (d *deployment) startFor(sink, topic, tool string) string {
	d.T.Helper()
	out, err := d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: "m", Sink: &client.Sink{Type: sink, Name: "chat"},
		Parts: []client.Part{client.ToolPart(tool, "c", json.RawMessage(`{"n":1}`))}})
	must(d.T, err)
	return out.Turn.Calls[0].ID
}

// carries waits until the stream of continuations holds the one of a topic.
func (d *deployment) carries(js jetstream.JetStream, topic string) {
	d.T.Helper()
	testcluster.Eventually(d.T, "the stream has the continuation of "+topic, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, bus.ContinuationsStream)
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx)
		if err != nil {
			return err
		}
		for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
			if m, err := stream.GetMsg(ctx, seq); err == nil && strings.Contains(string(m.Data), `"`+topic+`"`) {
				return nil
			}
		}
		return fmt.Errorf("it is not among %d messages", info.State.Msgs)
	})
}

// I8: Redis is flushed again and again, and poisoned, while people decide on
// two nodes. Nobody is told anything wrong, and afterwards what both nodes
// show and what every open window was told equal Postgres.
func TestI8AFlushedAndPoisonedRedisHeals(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	options, err := redis.ParseURL(d.Redis.URL())
	must(t, err)
	raw := redis.NewClient(options)
	t.Cleanup(func() { _ = raw.Close() })
	var topics []string
	for i := range 6 {
		topics = append(topics, fmt.Sprint("t", i))
		d.askOwn(topics[i])
	}
	windows := d.watch(topics...)
	ctx, stop := context.WithCancel(t.Context())
	var nemesis, people sync.WaitGroup
	nemesis.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			poison(ctx, raw, topics[n%len(topics)], n)
		}
	})
	for _, topic := range topics {
		people.Go(func() { d.denyAndGoOn(topic) })
	}
	people.Wait()
	stop()
	nemesis.Wait()
	d.equalsPostgres(windows)
	d.breaksNothing()
}

// poison puts into Redis what nobody of ours would.
func poison(ctx context.Context, raw *redis.Client, topic string, n int) {
	key := "ts:default:" + topic
	switch n % 4 {
	case 0:
		raw.FlushAll(ctx)
	case 1:
		raw.Set(ctx, key, "garbage", 0)
	case 2:
		raw.Del(ctx, key)
		raw.HSet(ctx, key, "v", "999", "id", "default:"+topic, "body", `{"id":"`+topic+`","status":"done","version":999}`) // without an end
	case 3:
		raw.Del(ctx, key)
		raw.HSet(ctx, key, "v", "1", "id", "other:"+topic, "body", `{}`)
	}
}

// askOwn registers a turn with a card in a topic.
func (d *deployment) askOwn(topic string) {
	d.T.Helper()
	must(d.T, second(d.Node(0).RegisterTurn(d.T.Context(), topic, client.TurnRequest{MessageID: "m", Executor: "caller",
		Parts: []client.Part{client.ToolPart("own", "c", json.RawMessage(`{}`))}})))
}

// denyAndGoOn denies the card of a topic and goes on, a few times, over both nodes.
func (d *deployment) denyAndGoOn(topic string) {
	ctx := d.T.Context()
	for i := range 4 {
		cards, err := d.Node(i%2).Approvals(ctx, client.ApprovalFilter{Topic: topic, State: "requested"})
		if err != nil || len(cards.Items) != 1 {
			d.T.Errorf("%s: cards %d, %v", topic, len(cards.Items), err)
			return
		}
		card := cards.Items[0]
		_, err = d.As((i+1)%2, "user:bob").Decide(ctx, card.ID, client.Decision{Approved: false})
		if err == nil {
			_, err = d.Node(i%2).RegisterTurn(ctx, topic, client.TurnRequest{Continues: card.Turn, Executor: "caller",
				Parts: []client.Part{client.ToolPart("own", fmt.Sprint("c", i), json.RawMessage(`{}`))}})
		}
		if err != nil {
			d.T.Errorf("%s: %v", topic, err)
			return
		}
	}
}

// windows are open event streams, on both nodes, and the last status that each
// was told.
type windows struct {
	mu   sync.Mutex
	told map[string]client.Topic // by node and topic
}

func (d *deployment) watch(topics ...string) *windows {
	d.T.Helper()
	w := &windows{told: map[string]client.Topic{}}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	d.T.Cleanup(func() { stop(); all.Wait() })
	for node := range 2 {
		for _, topic := range topics {
			all.Go(func() {
				for e, err := range d.Node(node).Events(ctx, topic, client.FromNow) {
					if err == nil && e.Status != nil {
						w.tell(fmt.Sprint(node, " ", topic), *e.Status)
					}
				}
			})
		}
	}
	return w
}

func (w *windows) tell(window string, status client.Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[window] = status
}

// equalsPostgres waits until what Redis has, as both nodes list it, and what
// every window was told equal the rows. An entry lives for a minute.
func (d *deployment) equalsPostgres(w *windows) {
	d.T.Helper()
	testcluster.Within(d.T, 90*time.Second, "Redis and every window equal Postgres", func(ctx context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.told) == 0 {
			return errors.New("no window was told anything yet")
		}
		for window, told := range w.told {
			var node int
			var topic string
			if _, err := fmt.Sscan(window, &node, &topic); err != nil {
				return err
			}
			row, err := d.Store.Topic(ctx, "default", model.TopicID(topic))
			if err != nil {
				return err
			}
			list, err := d.Node(node).Topics(ctx, client.TopicFilter{IDs: []string{topic}})
			if err != nil {
				return err
			}
			for _, shown := range append(list.Items, told) {
				if shown.Version != row.Version || shown.Status != string(row.Status()) || len(shown.Turns) != len(row.Turns) {
					return fmt.Errorf("%s: it shows %s of version %d, the row is %s of version %d", window, shown.Status, shown.Version, row.Status(), row.Version)
				}
			}
		}
		return nil
	})
}

// breaksNothing asks all invariants once, whatever is under way.
func (d *deployment) breaksNothing() {
	d.T.Helper()
	found, err := d.Store.Verify(d.T.Context(), store.Scope{})
	must(d.T, err)
	for _, v := range found {
		d.T.Errorf("%s", v)
	}
}
