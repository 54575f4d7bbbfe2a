package store

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

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

// Appended is what appending messages came to.
type Appended struct {
	Created bool // false: all of them were there before
	Topic   model.Topic
	Open    *OpenTurn // with ErrTurnOpen: what is in the way
}

// AppendMessages appends messages to a topic, which the first one creates.
// Appending the same message again is nothing new. Errors:
// [model.ErrMessageConflict] for an id that has other content,
// [model.ErrTurnOpen].
func (s *Store) AppendMessages(
	ctx context.Context, tenant model.TenantID, topic model.TopicID, messages []NewMessage, while WhileOpen,
) (Appended, error) {
	var out Appended
	var refused error
	err := transact(ctx, s.pool, "append messages", func(ctx context.Context, t *tx) error {
		a := &appender{unit: newUnit(tenant), topic: topic, existing: map[model.MessageID][]byte{}}
		a.inserts = &inserts{}
		ids := make([]string, len(messages))
		for i, m := range messages {
			ids[i] = string(m.ID)
		}
		if err := t.trip(ctx, func(b *pgx.Batch) { a.read(b, ids) }); err != nil {
			return err
		}
		row := a.topics[topic]
		if row == nil || a.unheld(row) {
			return errRepeat
		}
		if out, refused = a.judge(messages, while); refused != nil || !out.Created {
			return t.confirm(ctx, nothing)
		}
		if err := t.commit(ctx, a.saveChanged); err != nil {
			return err
		}
		out.Topic = *a.topics[topic]
		s.changed(a.changes())
		return nil
	})
	if err != nil {
		return Appended{}, unavailable(err)
	}
	return out, refused
}

type appender struct {
	*unit
	topic    model.TopicID
	existing map[model.MessageID][]byte // content
}

func (a *appender) read(b *pgx.Batch, ids []string) {
	topics := []string{string(a.topic)}
	b.Queue(insertTopics, a.tenant, topics)
	a.load(b, openTurnsOfTopic, string(a.topic))
	b.Queue(selectTopicsLocked, a.tenant, topics).Query(a.scanTopics)
	b.Queue(selectMessageContents, a.tenant, string(a.topic), ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var id model.MessageID
			var content []byte
			if err := rows.Scan(&id, &content); err != nil {
				return err
			}
			a.existing[id] = content
		}
		return rows.Err()
	})
	a.clock(b)
}

const selectMessageContents = `
	select message_id, content from messages
	 where tenant_id = $1 and topic_id = $2 and message_id = any($3::text[])`

func (a *appender) judge(messages []NewMessage, while WhileOpen) (Appended, error) {
	topic := a.topics[a.topic]
	var fresh []NewMessage
	for _, m := range messages {
		content, found := a.existing[m.ID]
		switch {
		case !found:
			fresh = append(fresh, m)
			a.existing[m.ID] = m.Content
		case !bytes.Equal(content, m.Content):
			return Appended{}, model.ErrMessageConflict
		}
	}
	if len(fresh) == 0 {
		return Appended{Topic: *topic}, nil
	}
	if open, err := a.makeWay(a.topic, while, ""); err != nil {
		return Appended{Topic: *topic, Open: open}, err
	}
	for _, m := range fresh {
		topic.Messages++
		a.inserts.messages.add(a.topic, m.ID, topic.Messages, m.Role, m.Parts, m.Metadata, m.Content)
	}
	return Appended{Created: true}, nil
}
