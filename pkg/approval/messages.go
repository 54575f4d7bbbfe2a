package approval

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// MaxMessages bounds the messages of one request.
const MaxMessages = 100

// AppendMessages appends messages of people or the system. Errors: [Invalid],
// and those of [store.Store.AppendMessages].
func (s *Service) AppendMessages(ctx context.Context, from Origin, topic model.TopicID, req MessagesRequest) (store.Appended, error) {
	return s.append(ctx, from, topic, req, false)
}

// EditMessage puts a person's message in the place of the one of its id, if
// there is one: what came after that is dropped. Errors: as
// [Service.AppendMessages].
func (s *Service) EditMessage(ctx context.Context, from Origin, topic model.TopicID, req MessagesRequest) (store.Appended, error) {
	return s.append(ctx, from, topic, req, true)
}

// ReplyAgain drops a message of the model, with what came after it, and asks
// once more for the reply to the person's message before; or for the one to a
// message of a person, behind which everything is dropped. Errors: [Invalid],
// and those of [store.Store.AppendMessages].
func (s *Service) ReplyAgain(ctx context.Context, from Origin, topic model.TopicID, message model.MessageID, whileOpen string) (store.Appended, error) {
	f := &faults{}
	a := store.Appending{Topic: topic, Again: message, WhileOpen: f.whileOpen(whileOpen), Reply: f.asked(nil, from), Actor: from.Actor(), Channel: from.Channel}
	if err := f.err(); err != nil {
		return store.Appended{}, err
	}
	return s.store.AppendMessages(ctx, from.By.Tenant, a)
}

func (s *Service) append(ctx context.Context, from Origin, topic model.TopicID, req MessagesRequest, edit bool) (store.Appended, error) {
	f := &faults{}
	while := f.whileOpenOf(req.WhileOpen, req.Reply && !edit)
	if n := len(req.Messages); n == 0 || n > MaxMessages {
		f.add("/messages", "must have 1 to %d items", MaxMessages)
		return store.Appended{}, f.err()
	}
	out := store.Appending{Topic: topic, WhileOpen: while, Edit: edit, Actor: from.Actor(), Channel: from.Channel,
		Messages: make([]store.NewMessage, len(req.Messages))}
	seen := map[model.MessageID]bool{}
	for i, raw := range req.Messages {
		pointer := fmt.Sprintf("/messages/%d", i)
		m := f.message(pointer, raw)
		if seen[m.ID] && m.ID != "" {
			f.add(pointer+"/id", "is used twice in this request")
		}
		seen[m.ID], out.Messages[i] = true, m
	}
	f.reply(req, from, &out)
	if err := f.err(); err != nil {
		return store.Appended{}, err
	}
	return s.store.AppendMessages(ctx, from.By.Tenant, out)
}

// reply reads whether the last message is to be answered, and by whom.
func (f *faults) reply(req MessagesRequest, from Origin, out *store.Appending) {
	switch {
	case !req.Reply && req.Sink != nil:
		f.add("/sink", "belongs to a reply")
	case req.Reply && out.Messages[len(out.Messages)-1].Role == "system":
		f.add("/reply", "answers a message of a user, and the last one is of the system")
	case req.Reply:
		out.Reply = f.asked(req.Sink, from)
	}
}

// asked is the turn that asks for a reply, as far as a request says it.
func (f *faults) asked(sink *SinkRequest, from Origin) *model.Turn {
	return &model.Turn{Execution: model.ExecuteWhenDecided, RequestedBy: from.By.Subject, Sink: f.sink(sink, from.By),
		Traceparent: from.Traceparent}
}

// message reads a UIMessage of a user or the system.
func (f *faults) message(pointer string, raw strictjson.Raw) store.NewMessage {
	m, ok := readMembers(f, pointer, raw)
	if !ok {
		return store.NewMessage{}
	}
	for name := range m.values {
		switch name {
		case "id", "role", "parts", "metadata":
		default:
			f.add(m.at(name), "is not a member that is known here")
		}
	}
	out := store.NewMessage{ID: model.MessageID(m.id("id")), Role: m.text("role", true), Parts: m.values["parts"], Metadata: m.values["metadata"]}
	if m.has("role") {
		m.oneOf("role", out.Role, "user", "system")
	}
	f.messageParts(m)
	c := newContent("message-v1")
	c.texts(out.Role)
	c.field(out.Parts)
	c.field(out.Metadata)
	out.Content = c.sum()
	return out
}

func (f *faults) messageParts(m members) {
	var parts []strictjson.Raw
	raw := m.values["parts"]
	if raw == nil || strictjson.Unmarshal(raw, &parts) != nil || len(parts) == 0 || len(parts) > MaxParts {
		f.add(m.at("parts"), "must be an array of 1 to %d parts", MaxParts)
		return
	}
	for i, p := range parts {
		part, ok := readMembers(f, fmt.Sprintf("%s/%d", m.at("parts"), i), p)
		if !ok {
			continue
		}
		switch kind := part.text("type", true); {
		case isToolPart(kind), kind == "step-start", kind == "reasoning":
			f.add(part.at("type"), "does not belong into a message of a user or the system")
		default:
			checkPlain(part, kind)
		}
	}
}
