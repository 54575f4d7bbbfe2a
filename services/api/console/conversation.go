package console

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// conversation is a topic as the page shows it.
type conversation struct {
	ID       model.TopicID
	Name     string
	Status   model.TopicStatus
	Text     string
	Older    bool // there are messages before the first one
	Messages []message
}

// message is one message; Key names its element.
type message struct {
	Key    string
	Role   string
	Who    string
	Blocks []block
}

// block is one thing to show within a message. Exactly one of Text, Note,
// Other and Tool is set.
type block struct {
	Key   string
	Text  string // a person's or the model's words
	Note  string // Countersign's own words
	Other string // a kind of part that is not drawn
	Tool  *tool
}

const (
	// shown is how many messages of a conversation the page shows, the last ones.
	shown = 100
	// maxCards bounds the open cards that are read with a topic.
	maxCards = 200
)

// conversation reads a topic. Errors: model.ErrNotFound.
func (c *Console) conversation(ctx context.Context, p model.Principal, id model.TopicID) (*conversation, error) {
	if model.CheckID(string(id)) != nil {
		return nil, model.ErrNotFound
	}
	topic, err := c.Rows.Topic(ctx, p.Tenant, id)
	if err != nil {
		return nil, err
	}
	history, err := c.Rows.Messages(ctx, p.Tenant, id, store.Range{After: max(0, topic.Messages-shown)})
	if err != nil {
		return nil, err
	}
	open, err := c.Rows.Cards(ctx, p.Tenant, store.CardFilter{State: model.ApprovalRequested, Topic: id, Limit: maxCards})
	if err != nil {
		return nil, err
	}
	around := surroundings{by: p, cards: map[model.CallID]store.Card{}}
	for _, card := range open {
		around.cards[card.Call.ID] = card
	}
	if around.doubts, err = c.doubts(ctx, p.Tenant, history); err != nil {
		return nil, err
	}
	out := &conversation{
		ID: id, Name: visible.Line(string(id)), Status: topic.Status(), Text: statusTexts[topic.Status()], Older: topic.Messages > shown,
	}
	for _, m := range history.Messages {
		out.Messages = append(out.Messages, newMessage(m, around))
	}
	return out, nil
}

// surroundings are what calls are shown with: who looks, the open cards, and
// the calls whose outcome is, or was, unknown.
type surroundings struct {
	by     model.Principal
	cards  map[model.CallID]store.Card
	doubts map[model.CallID]store.CallView
}

var speakers = map[string]string{"user": "Person", "system": "System", "assistant": "Model"}

func newMessage(m store.Message, around surroundings) message {
	out := message{Key: "m" + strconv.FormatInt(m.Position, 10), Role: m.Role, Who: speakers[m.Role]}
	if m.Parts != nil {
		var parts []json.RawMessage
		_ = json.Unmarshal(m.Parts, &parts) // it was checked when it came
		for i, part := range parts {
			out.add(fmt.Sprintf("%s-%d", out.Key, i), plain(part))
		}
	}
	for _, t := range m.Turns {
		out.addTurn(t, around)
	}
	return out
}

func (m *message) add(key string, b block) {
	if b != (block{}) {
		b.Key = key
		m.Blocks = append(m.Blocks, b)
	}
}

func (m *message) addTurn(t store.MessageTurn, around surroundings) {
	calls := map[int]store.MessageCall{}
	for _, c := range t.Calls {
		calls[c.Part] = c
	}
	key := fmt.Sprintf("%s-%d", m.Key, t.Step)
	for i, part := range t.Parts {
		if c, ok := calls[i]; ok && part == nil {
			m.add("call-"+string(c.ID), block{Tool: newTool(t, c, around)})
		} else {
			m.add(fmt.Sprintf("%s-%d", key, i), plain(part))
		}
	}
	m.add(key+"-end", block{Note: ending(t)})
}

// ending says what a turn waits for, or how it was ended, where its parts do
// not.
func ending(t store.MessageTurn) string {
	switch t.State() {
	case model.TurnStreaming:
		return "The model is answering …"
	case model.TurnContinuing:
		if t.Continuation.State == model.ContinuationFailed {
			return "Everything is decided and done, but the chat backend could not be reached for a day. Deliver it again with countersign redrive."
		}
		return "Everything is decided and done; the chat backend goes on from here."
	case model.TurnNeedsAttention:
		return "The outcome of a call is not known. Somebody must find out."
	case model.TurnAborted, model.TurnError:
		return "This turn was ended: " + visible.Line(t.EndReason) + "."
	}
	return ""
}

// plain shows a part that is no call of ours.
func plain(raw json.RawMessage) block {
	var part struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ToolName string `json:"toolName"`
		State    string `json:"state"`
		Data     struct {
			Text string `json:"text"`
		} `json:"data"`
	}
	_ = json.Unmarshal(raw, &part) // it was checked when it came
	switch part.Type {
	case "", "step-start":
		return block{}
	case "text":
		return block{Text: visible.Text(part.Text)}
	case "data-countersign-note":
		return block{Note: visible.Text(part.Data.Text)}
	}
	return block{Other: visible.Line(part.Type)}
}
