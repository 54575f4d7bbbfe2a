package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Message is a committed message. A user's or system message has Parts, an
// assistant's has Turns.
type Message struct {
	ID       model.MessageID
	Role     string
	Position int64
	Version  int64 // the topic's version at its last change
	Metadata json.RawMessage
	Parts    json.RawMessage
	Turns    []MessageTurn
}

// MessageTurn is one step of an assistant message with what is needed to draw
// its parts. Of its continuation only the state is read.
type MessageTurn struct {
	*model.Turn
	Parts    Parts
	Metadata Metadata
	Calls    []MessageCall // by part
}

// MessageCall is a call with the bytes that its part shows.
type MessageCall struct {
	*model.Call
	Dynamic bool
	Extra   json.RawMessage
	Input   json.RawMessage
	Output  json.RawMessage
}

// History is a topic's messages at one version.
type History struct {
	Version  int64
	Messages []Message
	Dropped  []model.MessageID // with ChangedAfter: those that are no part of the topic any more since then
}

// Range selects messages of a topic: those that changed after a version, or
// one by id, or a page after a position.
type Range struct {
	ChangedAfter int64           // 0: whatever the version
	ID           model.MessageID // "": any
	After        int64           // position
	Limit        int             // 0: all
}

// Messages reads a topic's messages, oldest first. Errors:
// [model.ErrNotFound] for a topic that is not there.
func (s *Store) Messages(ctx context.Context, tenant model.TenantID, topic model.TopicID, r Range) (History, error) {
	h := &historian{unit: newUnit(tenant), version: -1}
	args := []any{tenant, string(topic), r.ChangedAfter, string(r.ID), r.After, nullableInt(r.Limit)}
	b := &pgx.Batch{}
	b.Queue(`begin isolation level repeatable read read only`)
	b.Queue(`select version from topics where tenant_id = $1 and topic_id = $2`, tenant, string(topic)).Query(h.scanVersion)
	b.Queue(selectMessages, args...).Query(h.scanMessages)
	if r.ChangedAfter > 0 {
		b.Queue(selectDropped, tenant, string(topic), r.ChangedAfter, r.After).Query(h.scanDropped)
	}
	b.Queue(selectTurnsOfMessages, args...).Query(h.scanTurns)
	b.Queue(selectCallsOfMessages, args...).Query(h.scanCalls)
	b.Queue(selectApprovalsOfMessages, args...).Query(h.scanApprovals)
	b.Queue(`commit`)
	if err := s.readBatch(ctx, b); err != nil {
		return History{}, err
	}
	if h.version < 0 {
		return History{}, model.ErrNotFound
	}
	return h.assemble(), nil
}

// messagesInRange is the selection that the three statements share.
const messagesInRange = `
	select m.message_id
	  from messages m
	 where m.tenant_id = $1 and m.topic_id = $2 and m.position > $5 and not m.dropped and ($4 = '' or m.message_id = $4)
	   and ($3::bigint = 0 or m.version > $3::bigint or m.message_id in (
	          select message_id from turns where tenant_id = $1 and topic_id = $2 and version > $3::bigint))
	 order by m.position
	 limit $6`

const selectMessages = `
	select m.message_id, m.role, m.position, m.version, m.metadata, m.parts
	  from messages m
	 where m.tenant_id = $1 and m.topic_id = $2 and m.message_id = any(array(` + messagesInRange + `))
	 order by m.position`

const selectDropped = `
	select message_id
	  from messages
	 where tenant_id = $1 and topic_id = $2 and dropped and version > $3 and position > $4
	 order by position`

const selectTurnsOfMessages = `
	select ` + turnColumns + `, parts, metadata, version,
	       coalesce((select k.state from continuations k where k.tenant_id = $1 and k.turn_id = turns.turn_id), '')
	  from turns
	 where tenant_id = $1 and topic_id = $2 and message_id = any(array(` + messagesInRange + `)) and not discarded
	 order by message_id, step`

const selectCallsOfMessages = `
	select ` + callColumns + `, dynamic, extra, input, output
	  from calls
	 where tenant_id = $1 and turn_id = any(array(` + turnsInRange + `))
	 order by calls.turn_id, part`

const selectApprovalsOfMessages = `
	select call_id::text, ` + approvalColumns + `
	  from approvals
	 where tenant_id = $1 and turn_id = any(array(` + turnsInRange + `))`

const turnsInRange = `
	select turn_id from turns
	 where tenant_id = $1 and topic_id = $2 and message_id = any(array(` + messagesInRange + `))`

type historian struct {
	*unit
	version  int64
	messages []Message
	dropped  []model.MessageID
	turnsOf  map[model.MessageID][]MessageTurn
	versions map[model.MessageID]int64
	callsOf  map[model.TurnID][]MessageCall
}

func (h *historian) scanVersion(rows pgx.Rows) error {
	for rows.Next() {
		if err := rows.Scan(&h.version); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (h *historian) scanMessages(rows pgx.Rows) error {
	for rows.Next() {
		var m Message
		if err := rows.Scan(&m.ID, &m.Role, &m.Position, &m.Version, &m.Metadata, &m.Parts); err != nil {
			return err
		}
		h.messages = append(h.messages, m)
	}
	return rows.Err()
}

func (h *historian) scanDropped(rows pgx.Rows) (err error) {
	h.dropped, err = pgx.CollectRows(rows, pgx.RowTo[model.MessageID])
	return err
}

func (h *historian) scanTurns(rows pgx.Rows) error {
	h.turnsOf, h.versions = map[model.MessageID][]MessageTurn{}, map[model.MessageID]int64{}
	for rows.Next() {
		var raw, about []byte
		var version int64
		var continuation model.ContinuationState
		t, err := scanTurn(rows, &raw, &about, &version, &continuation)
		if err != nil {
			return err
		}
		t.Tenant = h.tenant
		if continuation != "" {
			t.Continuation = &model.Continuation{State: continuation}
		}
		parts, err := decodeParts(raw)
		if err != nil {
			return err
		}
		metadata, err := decodeMetadata(about)
		if err != nil {
			return err
		}
		h.turnsOf[t.Message] = append(h.turnsOf[t.Message], MessageTurn{Turn: t, Parts: parts, Metadata: metadata})
		h.versions[t.Message] = max(h.versions[t.Message], version)
	}
	return rows.Err()
}

func (h *historian) scanCalls(rows pgx.Rows) error {
	h.callsOf = map[model.TurnID][]MessageCall{}
	for rows.Next() {
		var m MessageCall
		c, turn, err := scanCall(rows, &m.Dynamic, &m.Extra, &m.Input, &m.Output)
		if err != nil {
			return err
		}
		m.Call = c
		h.callsOf[turn] = append(h.callsOf[turn], m)
	}
	return rows.Err()
}

func (h *historian) scanApprovals(rows pgx.Rows) error {
	asked := map[model.CallID]*model.Call{}
	for _, calls := range h.callsOf {
		for _, c := range calls {
			asked[c.ID] = c.Call
		}
	}
	return attach(rows, asked)
}

func (h *historian) assemble() History {
	for i := range h.messages {
		m := &h.messages[i]
		m.Turns = h.turnsOf[m.ID]
		m.Version = max(m.Version, h.versions[m.ID])
		for j := range m.Turns {
			m.Turns[j].Calls = h.callsOf[m.Turns[j].ID]
			for _, c := range m.Turns[j].Calls {
				m.Turns[j].Turn.Calls = append(m.Turns[j].Turn.Calls, c.Call)
			}
		}
	}
	return History{h.version, h.messages, h.dropped}
}

func nullableInt(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
