package users

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/pkg/client"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/test/nemesis/history"
)

// chatting is a conversation through the AI SDK's endpoint, whose model the
// workers ask: a person writes, answers cards, writes something newer while
// one is open, and wants an answer anew.
type chatting struct {
	*talk
	said  int             // messages
	known map[string]bool // calls whose cards somebody sees to
}

// chats tells which conversations are chats.
func chats(n uint64) bool { return n%5 == 3 }

// chat holds a whole chat: some messages, each when everything before it is
// over.
func (w *World) chat(ctx context.Context, n uint64) {
	r := rand.New(rand.NewPCG(w.o.Seed, n))
	t := w.tenants[n%2]
	k := &chatting{known: map[string]bool{}, talk: &talk{World: w, t: t, n: n, topic: fmt.Sprintf("chat-%d", n), rand: r,
		turns: &atomic.Int64{}, beside: &sync.WaitGroup{}}}
	if r.IntN(3) == 0 {
		w.watch(ctx, t, k.topic, fork(r))
	}
	defer k.beside.Wait()
	for range 1 + r.IntN(3) {
		if k.say(ctx, 1+r.IntN(2), "") {
			k.see(ctx, r.IntN(3) == 0)
		}
	}
}

// say writes a message that wants some calls, and tells whether it was taken.
// Sometimes it is sent twice at once.
func (k *chatting) say(ctx context.Context, calls int, while string) bool {
	k.said++
	id := fmt.Sprintf("said-%d-%d", k.n, k.said)
	op := history.Op{Process: "user:alice", Kind: history.Say, Topic: k.topic, Message: id, While: while}
	body := map[string]any{"id": k.topic, "trigger": "submit-message", "messages": []any{map[string]any{
		"id": id, "role": "user", "parts": []any{map[string]any{"type": "text", "text": wants(k.rand, id, calls)}}}}}
	if while != "" {
		body["whileOpen"] = while
	}
	if while != "block" && k.rand.IntN(3) == 0 { // what is refused now must not be taken later, when nobody looks
		own, later := fork(k.rand), time.Duration(k.rand.IntN(3000))*time.Millisecond
		k.beside.Go(func() {
			pause(ctx, later)
			_, _ = k.insist(ctx, own, k.t, op, k.posting(body))
		})
	}
	done, _ := k.insist(ctx, k.rand, k.t, op, k.posting(body))
	return done.Result == history.OK
}

// wants is the text of a message. What callers run is nothing for a chat,
// which has no backend.
func wants(r *rand.Rand, id string, calls int) string {
	var w wish
	for i := 0; i < calls; {
		if kind := drawTool(r); !kind.caller {
			w.Calls = append(w.Calls, wished{kind.name, json.RawMessage(input(fmt.Sprintf("%s-c%d", id, i), 0))})
			i++
		}
	}
	text, _ := json.Marshal(w)
	return string(text)
}

// again wants another answer than a message.
func (k *chatting) again(ctx context.Context, message string) {
	op := history.Op{Process: "user:alice", Kind: history.Again, Topic: k.topic, Message: message}
	body := map[string]any{"id": k.topic, "trigger": "regenerate-message", "messageId": message}
	_, _ = k.insist(ctx, k.rand, k.t, op, k.posting(body))
}

// posting posts to the chat's endpoint, and lets a response that follows the
// conversation go.
func (k *chatting) posting(body any) request {
	raw, _ := json.Marshal(body)
	return func(ctx context.Context, _ *client.Client, op *history.Op) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, k.site.API(op.Node)+"/api/chat", bytes.NewReader(raw))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+k.t.chat)
		request.Header.Set("Content-Type", "application/json")
		response, err := k.http[op.Node].Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		p := &client.Problem{Status: response.StatusCode}
		text, err := io.ReadAll(response.Body)
		if err != nil || json.Unmarshal(text, p) != nil {
			return fmt.Errorf("%d %s", response.StatusCode, text)
		}
		return p
	}
}

// see sees to everything that the chat waits for, until nothing of it is open.
// busy: the person does something else meanwhile, once.
func (k *chatting) see(ctx context.Context, busy bool) {
	for ctx.Err() == nil {
		row, err := k.site.Store.Topic(ctx, model.TenantID(k.t.name), model.TopicID(k.topic))
		if err == nil && row.Counters.Open() == 0 {
			return
		}
		topic, ok := k.open(ctx)
		for _, t := range topic.Turns {
			if turn, found := k.look(ctx, t.ID, 0); ok && found {
				k.attendTo(ctx, turn)
				if busy && turn.State == "awaiting-approval" {
					busy = false
					k.meanwhile(ctx, turn)
				}
			}
		}
		pause(ctx, time.Duration(100+k.rand.IntN(200))*time.Millisecond)
	}
}

// open reads the topic with its open turns.
func (k *chatting) open(ctx context.Context) (topic client.Topic, ok bool) {
	op := history.Op{Process: "reader", Kind: history.Topic, Node: k.rand.IntN(2), Topic: k.topic}
	_, err := k.ask(ctx, k.t, op, func(ctx context.Context, c *client.Client, op *history.Op) (err error) {
		topic, err = c.Topic(ctx, k.topic)
		op.State, op.Version = topic.Status, topic.Version
		return err
	})
	return topic, err == nil
}

// attendTo sees to one turn: cards that nobody has seen, an outcome that
// nobody knows, an answer that failed.
func (k *chatting) attendTo(ctx context.Context, turn client.Turn) {
	fresh := turn
	fresh.Calls = nil
	for _, c := range turn.Calls {
		if c.ApprovalID != "" && !k.known[c.ID] {
			k.known[c.ID] = true
			fresh.Calls = append(fresh.Calls, c)
		}
	}
	k.remember(k.t, &fresh)
	k.attend(ctx, &fresh, answered)
	switch {
	case turn.State == "needs-attention":
		k.clearUp(ctx, turn)
	case turn.Continuation != nil && turn.Continuation.State == "failed":
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, _ = k.client(k.t, k.rand.IntN(2), "").Redrive(ctx, turn.ID)
	}
}

// meanwhile is what a person does while a card is open.
func (k *chatting) meanwhile(ctx context.Context, turn client.Turn) {
	switch n := k.rand.IntN(10); {
	case n < 3:
		k.say(ctx, k.rand.IntN(2), draw(k.rand, "", "supersede"))
	case n < 5:
		k.say(ctx, k.rand.IntN(2), "queue")
	case n < 6:
		k.say(ctx, 1, "block")
	case n < 9:
		k.again(ctx, turn.MessageID)
	default:
		k.cancel(ctx, turn.ID)
	}
}
