package store

import (
	"bytes"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// A conversation goes back to an earlier message of a person: what came after
// it is dropped, which takes it out of the conversation and leaves its rows,
// and the message, edited or not, is replied to anew. All of that is one
// commit, with the end of the turns that are open.

// anew is what an Again names: a message, and the person's message to which it
// belongs.
type anew struct {
	dropped  bool  // the named message is
	position int64 // of the named message
	model    bool  // it is the model's
	anchor   model.MessageID
	message  appendedMessage   // the anchor
	beside   []model.MessageID // what stands between the two: other answers to the anchor
}

// selectAnew finds the message, and the person's message that it is or that
// came before it.
const selectAnew = `
	select ` + appendedColumns + `, g.dropped, g.position, g.role = 'assistant',
	       array(select b.message_id from messages b
	              where b.tenant_id = $1 and b.topic_id = $2 and b.position > m.position and b.position < g.position and not b.dropped)
	  from messages g
	  join messages m on m.tenant_id = $1 and m.topic_id = $2 and m.position = (
	       select max(p.position) from messages p
	        where p.tenant_id = $1 and p.topic_id = $2 and p.position <= g.position and p.role = 'user')
	 where g.tenant_id = $1 and g.topic_id = $2 and g.message_id = $3`

func (a *appender) scanAnew(rows pgx.Rows) error {
	for rows.Next() {
		var n anew
		var err error
		if n.anchor, n.message, err = scanAppended(rows, &n.dropped, &n.position, &n.model, &n.beside); err != nil {
			return err
		}
		a.anew = &n
	}
	return rows.Err()
}

// judgeAgain asks anew for the reply to a message. Where that was done
// already, by another window or by a request whose answer was lost, it is
// nothing new.
func (a *appender) judgeAgain() (Appended, error) {
	n, topic := a.anew, a.topics[a.Topic]
	if n == nil || n.message.dropped {
		return Appended{}, model.ErrNotFound
	}
	waits := a.turns[n.message.asked] != nil && a.turns[n.message.asked].State() == model.TurnContinuing
	if n.dropped || waits && n.message.after == "" {
		return Appended{Topic: *topic, Reply: n.message.asked}, nil
	}
	from := n.message.position + 1
	if n.model {
		from = n.position
	}
	return a.anewFrom(from, n.anchor, n.message, n.beside)
}

// judgeEdit puts a message in the place of the one of its id. The same one is
// nothing new.
func (a *appender) judgeEdit(m *NewMessage, is appendedMessage) (Appended, error) {
	switch {
	case is.dropped:
		return Appended{}, model.ErrMessageConflict
	case bytes.Equal(is.content, m.Content):
		return Appended{Topic: *a.topics[a.Topic], Reply: is.asked}, nil
	}
	a.edited = m
	return a.anewFrom(is.position+1, m.ID, is, nil)
}

// anewFrom drops what stands from a position on, and asks for the reply to a
// message before it. Other answers to that message stay as they are, with
// their cards.
func (a *appender) anewFrom(from int64, answered model.MessageID, message appendedMessage, beside []model.MessageID) (Appended, error) {
	another := func(t *model.Turn) bool { return slices.Contains(beside, t.Message) }
	if open, err := a.makeWay(a.Topic, a.WhileOpen, another); err != nil {
		return Appended{Topic: *a.topics[a.Topic], Open: open}, err
	}
	a.from, a.dropped = from, answered
	return Appended{Created: true, Reply: a.ask(answered, message.steps)}, nil
}

func (a *appender) goBack(b *pgx.Batch) {
	if a.dropped == "" {
		return
	}
	b.Queue(dropMessages, a.tenant, string(a.Topic), a.from)
	if m := a.edited; m != nil {
		b.Queue(editMessage, a.tenant, string(a.Topic), string(m.ID), m.Role, m.Parts, m.Metadata, m.Content)
	}
}

const dropMessages = `
	update messages m
	   set dropped = true,
	       version = t.version
	  from topics t
	 where t.tenant_id = $1 and t.topic_id = $2
	   and m.tenant_id = $1 and m.topic_id = $2 and m.position >= $3 and not m.dropped`

const editMessage = `
	update messages m
	   set role = $4,
	       parts = $5,
	       metadata = $6,
	       content = $7,
	       former = m.former || m.parts,
	       version = t.version
	  from topics t
	 where t.tenant_id = $1 and t.topic_id = $2
	   and m.tenant_id = $1 and m.topic_id = $2 and m.message_id = $3 and not m.dropped`
