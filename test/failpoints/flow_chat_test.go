package failpoints

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/examples/modelserver/scripted"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// The flows of a chat: a person writes, the model loop answers with a call,
// the person approves it, the tool runs, and the model says what came of it.
var (
	chatTurn       = flow{name: "chat", normal: once, run: chat}
	refusedChat    = flow{name: "refused", normal: once, run: chat}
	supersededChat = flow{name: "superseded", normal: once, run: writeAnother}
	queuedChat     = flow{name: "queued", normal: once, run: writeWhileWaiting}
	chatAnew       = flow{name: "anew", normal: once, run: askAnew}
)

// newProvider is what the workers' model loop asks: a model that does what it
// is told. A conversation that is to be refused is, the first time. It gives
// the workers' settings.
func newProvider(t *testing.T) []string {
	t.Helper()
	var asked sync.Map
	server := httptest.NewServer(scripted.New(func(r scripted.Request) scripted.Answer {
		topic := r.Messages[0].Text()
		if _, again := asked.LoadOrStore(topic, true); !again && strings.HasPrefix(topic, refusedChat.name) {
			return scripted.Answer{Status: 401, Body: `{}`}
		}
		return scripted.Obedient(r)
	}))
	t.Cleanup(server.Close)
	return []string{"COUNTERSIGN_MODEL_BASE_URL=" + server.URL, "COUNTERSIGN_MODEL_NAME=m", "COUNTERSIGN_MODEL_POLL=500ms"}
}

// chatKey is a key whose chats the model loop answers.
func (s *stage) chatKey(t *testing.T) string {
	t.Helper()
	key := store.NewKey()
	_, err := s.Store.PutKey(t.Context(), "default", store.KeyRow{Name: "chat", Roles: []model.Role{model.RoleBackend, model.RoleApprover},
		Sink: &model.Sink{Type: model.SinkModel, AcceptWithin: model.DefaultAcceptWithin}}, key, "test", "test")
	must(t, err)
	return key
}

func chat(u *unit) error {
	return errors.Join(u.writes(answeredOnce, ""), u.card(), u.approves(), u.isAnswered())
}

// writeAnother writes something newer while a card is open, which is closed
// with it.
func writeAnother(u *unit) error {
	return errors.Join(u.writes(notAnswered, ""), u.card(), u.writes(answeredOnce, "supersede"), u.card(), u.approves(), u.isAnswered())
}

// writeWhileWaiting writes something while a card is open that is answered
// when everything before it is over.
func writeWhileWaiting(u *unit) error {
	return errors.Join(u.writes(answeredOnce, ""), u.card(), u.says(answeredOnce, "What else?", "queue"), u.approves(), u.isAnswered())
}

// askAnew wants another answer while the card of the first one is open.
func askAnew(u *unit) error {
	err := errors.Join(u.writes(answeredOnce, ""), u.card())
	again := map[string]any{"id": u.topic, "trigger": "regenerate-message", "messageId": u.message}
	return errors.Join(err, u.post("/api/chat", again), u.card(), u.approves(), u.isAnswered())
}

// What becomes of a person's message: one whole answer, or none, since a newer
// message took its place.
const (
	answeredOnce = 1
	notAnswered  = 0
)

// writes writes something that wants a call of the unsafe tool.
func (u *unit) writes(answers int, whileOpen string) error {
	return u.says(answers, u.topic+` wants unsafe {"n": 1}`, whileOpen)
}

// says posts a message as the AI SDK's client does.
func (u *unit) says(answers int, text, whileOpen string) error {
	if u.said == nil {
		u.said = map[string]int{}
	}
	id := fmt.Sprintf("said-%s-%d", u.topic, len(u.said))
	u.said[id] = answers
	body := map[string]any{"id": u.topic, "trigger": "submit-message", "messages": []any{
		map[string]any{"id": id, "role": "user", "parts": []any{map[string]any{"type": "text", "text": text}}}}}
	if whileOpen != "" {
		body["whileOpen"] = whileOpen
	}
	return u.post("/api/chat", body)
}

// card waits for the open card of the topic, and keeps its ids.
func (u *unit) card() error {
	return u.until("a card of "+u.topic, func(ctx context.Context) error {
		if err := u.tend(ctx); err != nil {
			return err
		}
		return u.stage.Rows().QueryRowContext(ctx, `
			select t.message_id, t.turn_id, c.call_id, c.tool_call_id, a.approval_id
			  from turns t
			  join calls c using (tenant_id, turn_id)
			  join approvals a using (tenant_id, call_id)
			 where t.topic_id = $1 and a.state = 'requested'`, u.topic).Scan(&u.message, &u.turn, &u.call, &u.toolCall, &u.approval)
	})
}

// approves answers the card as the AI SDK's client does, in its next request.
func (u *unit) approves() error {
	part := map[string]any{"type": "tool-unsafe", "toolCallId": u.toolCall, "state": "approval-responded", "input": map[string]any{"n": 1},
		"approval": map[string]any{"id": u.approval, "approved": true}}
	return u.post("/api/chat", map[string]any{"id": u.topic, "trigger": "submit-message", "messageId": u.message, "messages": []any{
		map[string]any{"id": u.message, "role": "assistant", "parts": []any{map[string]any{"type": "step-start"}, part}}}})
}

// post posts until that is answered, and lets a response that follows the
// conversation go: what it would say is in the rows.
func (u *unit) post(path string, body any) error {
	return u.askNode(func(ctx context.Context, node int) error { return u.send(ctx, node, path, u.stage.key, body) })
}

func (u *unit) isAnswered() error {
	return u.until("everything is answered", func(ctx context.Context) error {
		if err := u.tend(ctx); err != nil {
			return err
		}
		got, err := u.outcome(ctx)
		if err == nil && got != once {
			err = fmt.Errorf("it is: %s", got)
		}
		return err
	})
}

// tend has a live turn that nobody renews lost soon, before a process that a
// point stopped goes on, and an answer that failed asked for again.
func (u *unit) tend(ctx context.Context) error {
	err := u.stage.change(ctx, `update turns set live_until = clock_timestamp()
		where topic_id = $1 and live_until < clock_timestamp() + interval '27 seconds'`, u.topic) // 3 s of 30 without a word
	if err != nil {
		return err
	}
	var failed string
	err = u.stage.Rows().QueryRowContext(ctx, `select turn_id from continuations where topic_id = $1 and state = 'failed'`, u.topic).Scan(&failed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = u.node(1-u.first).Redrive(ctx, failed)
	}
	return errors.Join(err, errors.New("it was redriven"))
}

// answers holds a chat to what it promises: each message that a person wrote
// is there once, with one whole answer, or with none if a newer one took its
// place; and no call ran but the one that was approved.
func (u *unit) answers(ctx context.Context) error {
	if u.said == nil {
		return nil
	}
	rows, err := u.stage.Rows().QueryContext(ctx, `
		select m.message_id, count(n.turn_id) filter (where n.ended = '' and not a.dropped)
		  from messages m
		  left join turns r on r.tenant_id = m.tenant_id and r.topic_id = m.topic_id and r.message_id = m.message_id and r.reply
		  left join turns n on n.tenant_id = r.tenant_id and n.continues = r.turn_id and not n.discarded
		  left join messages a on a.tenant_id = n.tenant_id and a.topic_id = n.topic_id and a.message_id = n.message_id
		 where m.topic_id = $1 and m.role = 'user' and not m.dropped
		 group by m.message_id`, u.topic)
	if err != nil {
		return err
	}
	defer rows.Close()
	got := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return err
		}
		got[id] = n
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if !maps.Equal(got, u.said) {
		return fmt.Errorf("the messages have %v answers, want %v", got, u.said)
	}
	return u.others(ctx)
}

// others are the topic's calls besides the approved one.
func (u *unit) others(ctx context.Context) error {
	calls, err := u.stage.Store.Calls(ctx, "default", store.CallFilter{Topic: model.TopicID(u.topic), Limit: 100})
	if err != nil {
		return err
	}
	for _, c := range calls {
		if sent, _ := u.stage.ledger.times(string(c.ID)); string(c.ID) != u.call && sent > 0 {
			return fmt.Errorf("%s was sent, which nobody approved", c.ID)
		}
	}
	return nil
}
