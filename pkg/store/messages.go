package store

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/bugs"
	"github.com/countersign/countersign/pkg/model"
)

// NewMessage is a user's or system message to append.
type NewMessage struct {
	ID       model.MessageID
	Role     string // "user" or "system"
	Parts    []byte // a JSON array, exact
	Metadata []byte // a JSON value, or nil
	Content  []byte // SHA-256 over role, parts and metadata
}

// Appending are messages to append to a topic.
type Appending struct {
	Topic     model.TopicID
	Messages  []NewMessage
	WhileOpen WhileOpen
	Reply     *model.Turn // asks for a reply to the last message; Execution, RequestedBy, Sink and Traceparent are taken over
	Actor     string
	Channel   string

	// Edit: the one message takes the place of the one of its id, if there is
	// one, and what came after that is dropped. Again: no messages are
	// appended; this message, if it is the model's, and what came after it is
	// dropped, and the person's message before it is replied to once more.
	Edit  bool
	Again model.MessageID
}

// Appended is what appending messages came to.
type Appended struct {
	Created bool // false: all of it was there before
	Topic   model.Topic
	Reply   model.TurnID // the turn that asks for the reply, now or since an earlier appending; "" where none was asked for
	Open    *OpenTurn    // with ErrTurnOpen: what is in the way
}

// AppendMessages appends messages to a topic, which the first one creates,
// and asks for a reply to the last of them, whose continuation is ready with
// the same commit. Appending the same message again is nothing new, and so is
// asking again for a reply to it. Errors: [model.ErrMessageConflict] for an id
// that has other content, or was dropped; [model.ErrTurnOpen];
// [model.ErrNotFound] for an Again that names nothing of the conversation;
// [model.ErrInvalid] without both.
func (s *Store) AppendMessages(ctx context.Context, tenant model.TenantID, appending Appending) (Appended, error) {
	var out Appended
	var refused error
	reply := model.NewTurnID() // made here, so that a retry asks with the same turn
	err := transact(ctx, s.pool, "append messages", func(ctx context.Context, t *tx) error {
		a := &appender{unit: newUnit(tenant), Appending: appending, reply: reply, existing: map[model.MessageID]appendedMessage{}}
		a.inserts = &inserts{}
		if err := t.trip(ctx, a.read); err != nil {
			return err
		}
		row := a.topics[a.Topic]
		if row == nil || a.unheld(row) {
			return errRepeat
		}
		if out, refused = a.judge(); refused != nil || !out.Created {
			return t.confirm(ctx, nothing)
		}
		if _, err := a.dirty(); err != nil {
			return err
		}
		if err := t.commit(ctx, a.write); err != nil {
			return err
		}
		out.Topic = *a.topics[a.Topic]
		s.changed(a.changes())
		return nil
	})
	if err != nil {
		return Appended{}, unavailable(err)
	}
	return out, refused
}

// appender is one transaction that appends messages.
type appender struct {
	*unit
	Appending
	reply    model.TurnID // of the turn that asks, if one has to
	existing map[model.MessageID]appendedMessage
	anew     *anew // what Again comes to; nil where it names nothing

	edited  *NewMessage     // replaces the one of its id
	dropped model.MessageID // what is dropped begins with it; "" is nothing
	from    int64           // its position
}

// appendedMessage is a message of the topic that an appending names.
type appendedMessage struct {
	content  []byte
	position int64
	dropped  bool
	asked    model.TurnID    // the turn that asked last for a reply to it, or ""
	steps    int             // the next turn's place
	after    model.MessageID // the first message after it that is not dropped, or ""
}

func (a *appender) read(b *pgx.Batch) {
	ids := make([]string, len(a.Messages))
	for i, m := range a.Messages {
		ids[i] = string(m.ID)
	}
	topics := []string{string(a.Topic)}
	b.Queue(insertTopics, a.tenant, topics)
	a.load(b, openTurnsOfTopic, string(a.Topic))
	b.Queue(selectTopicsLocked, a.tenant, topics).Query(a.scanTopics)
	if a.Again != "" {
		b.Queue(selectAnew, a.tenant, string(a.Topic), string(a.Again)).Query(a.scanAnew)
	} else {
		b.Queue(selectAppended, a.tenant, string(a.Topic), ids).Query(a.scanExisting)
	}
	a.clock(b)
}

const selectAppended = `
	select ` + appendedColumns + `
	  from messages m
	 where m.tenant_id = $1 and m.topic_id = $2 and m.message_id = any($3::text[])`

const appendedColumns = `m.message_id, m.content, m.position, m.dropped,
	       coalesce((select t.turn_id::text from turns t
	                  where t.tenant_id = $1 and t.topic_id = $2 and t.message_id = m.message_id and t.reply
	                  order by t.step desc limit 1), ''),
	       (select coalesce(max(t.step) + 1, 0) from turns t
	         where t.tenant_id = $1 and t.topic_id = $2 and t.message_id = m.message_id),
	       coalesce((select n.message_id from messages n
	                  where n.tenant_id = $1 and n.topic_id = $2 and n.position > m.position and not n.dropped
	                  order by n.position limit 1), '')`

func scanAppended(row pgx.Row, more ...any) (id model.MessageID, m appendedMessage, err error) {
	err = row.Scan(append([]any{&id, &m.content, &m.position, &m.dropped, &m.asked, &m.steps, &m.after}, more...)...)
	return id, m, err
}

func (a *appender) scanExisting(rows pgx.Rows) error {
	for rows.Next() {
		id, m, err := scanAppended(rows)
		if err != nil {
			return err
		}
		a.existing[id] = m
	}
	return rows.Err()
}

func (a *appender) judge() (Appended, error) {
	switch {
	case a.Again != "":
		return a.judgeAgain()
	case len(a.Messages) == 0:
		return Appended{}, model.ErrInvalid
	case a.Edit:
		if is, found := a.existing[a.Messages[0].ID]; found {
			return a.judgeEdit(&a.Messages[0], is)
		}
	}
	topic := a.topics[a.Topic]
	var fresh []NewMessage
	for _, m := range a.Messages {
		is, found := a.existing[m.ID]
		switch {
		case !found:
			fresh = append(fresh, m)
			a.existing[m.ID] = appendedMessage{content: m.Content}
		case is.dropped || !bytes.Equal(is.content, m.Content):
			return Appended{}, model.ErrMessageConflict
		}
	}
	answered := a.Messages[len(a.Messages)-1].ID
	last := a.existing[answered]
	asks := a.Reply != nil && (bugs.Reply || last.after == "" && last.asked == "")
	if len(fresh) == 0 && !asks {
		return Appended{Topic: *topic, Reply: last.asked}, nil
	}
	if open, err := a.makeWay(a.Topic, a.WhileOpen, nothingBeside); err != nil {
		return Appended{Topic: *topic, Open: open}, err
	}
	for _, m := range fresh {
		topic.Messages++
		a.inserts.messages.add(a.Topic, m.ID, topic.Messages, m.Role, m.Parts, m.Metadata, m.Content)
	}
	if asks {
		return Appended{Created: true, Reply: a.ask(answered, last.steps)}, nil
	}
	return Appended{Created: true, Reply: last.asked}, nil
}

// ask makes the turn that asks for a reply to a message.
func (a *appender) ask(message model.MessageID, step int) model.TurnID {
	turn := *a.Reply
	turn.Tenant, turn.ID, turn.Topic, turn.Message, turn.Step = a.tenant, a.reply, a.Topic, message, step
	turn.Reply, turn.Queued = true, a.WhileOpen == WhileOpenQueue && a.busy(a.Topic)
	turn.Begin(a.now)
	turn.AuditReply(a.Actor, a.Channel, a.dropped, a.now)
	a.turns[turn.ID], a.fresh[turn.ID] = &turn, true
	a.inserts.turn(&turn, nil, []byte{})
	return turn.ID
}

func (a *appender) write(b *pgx.Batch) {
	a.saveChanged(b)
	if t := a.turns[a.reply]; t != nil && t.Queued {
		b.Queue(queueReply, a.tenant, string(t.ID))
	}
	a.goBack(b)
}

const queueReply = `
	update turns set queued = true
	 where tenant_id = $1 and turn_id = ($2::text)::uuid`
