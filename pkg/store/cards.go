package store

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Card is what a person sees of an approval: the call with the exact input,
// the definition that it is bound to, and who asked.
type Card struct {
	Call        *model.Call // with its Approval
	Turn        model.TurnID
	Topic       model.TopicID
	Message     model.MessageID
	RequestedBy string
	Input       json.RawMessage
	Original    json.RawMessage // the model's own input, where a person edited it
	Definition  json.RawMessage // the stored definition, or nil
	Version     int64           // the turn's: the topic's version at its last change
	Approvers   []string        // who has approved the card as it stands
	Earlier     *Earlier        // the call that it may repeat, or nil
}

// CardFilter selects cards; empty fields select all.
type CardFilter struct {
	State    model.ApprovalState
	Topic    model.TopicID
	Topics   []model.TopicID // only these; nil is every one
	Tool     string
	Assignee string           // a principal that the policies name, or that they do not shut out
	Before   model.ApprovalID // the last card of the page before; ids sort by time
	Limit    int
}

const cardColumns = `
	select c.call_id::text, c.turn_id::text, c.topic_id, c.message_id, t.requested_by, c.input, c.original_input, d.definition,
	       t.version,
	       array(select r.decided_by from decisions r
	              where r.tenant_id = a.tenant_id and r.approval_id = a.approval_id and r.approved and r.digest = c.digest
	              group by r.decided_by order by min(r.decided_at))
	  from approvals a
	  join calls c using (tenant_id, call_id)
	  join turns t on t.tenant_id = c.tenant_id and t.turn_id = c.turn_id
	  left join tool_definitions d on d.tenant_id = c.tenant_id and d.hash = c.definition`

// Card reads one card. Errors: [model.ErrNotFound].
func (s *Store) Card(ctx context.Context, tenant model.TenantID, id model.ApprovalID) (Card, error) {
	cards, err := s.cards(ctx, selectCard, tenant, string(id))
	if err != nil {
		return Card{}, err
	}
	if len(cards) == 0 {
		return Card{}, model.ErrNotFound
	}
	return cards[0], nil
}

const selectCard = cardColumns + `
	 where a.tenant_id = $1 and a.approval_id = ($2::text)::uuid`

// Cards lists cards, newest first.
func (s *Store) Cards(ctx context.Context, tenant model.TenantID, f CardFilter) ([]Card, error) {
	return s.cards(ctx, selectCards, tenant, string(f.State), string(f.Topic), f.Tool, f.Assignee, string(f.Before), f.Limit, f.Topics)
}

const selectCards = cardColumns + `
	 where a.tenant_id = $1
	   and ($2 = '' or a.state = $2)
	   and ($3 = '' or a.topic_id = $3)
	   and ($4 = '' or c.tool = $4)
	   and ($5 = '' or not coalesce((a.rule ->> 'restricted')::boolean, false) or a.rule -> 'approvers' ? $5)
	   and ($6 = '' or a.approval_id < nullif($6, '')::uuid)
	   and ($8::text[] is null or a.topic_id = any($8))
	 order by a.approval_id desc
	 limit $7`

// cards reads what is around each call, and then the calls with their
// approvals, as all of it was at one moment.
func (s *Store) cards(ctx context.Context, query string, args ...any) (out []Card, err error) {
	err = s.atOneMoment(ctx, func(q *moment) error {
		var ids []string
		err := q.trip(ctx, func(b *pgx.Batch) {
			b.Queue(query, args...).Query(func(rows pgx.Rows) (err error) {
				out, ids, err = scanCards(rows)
				return err
			})
		})
		if err != nil || len(out) == 0 {
			return err
		}
		calls, err := q.calls(ctx, nil, selectCallsByID, args[0], ids)
		if err != nil {
			return err
		}
		byID := map[string]CallView{}
		for _, c := range calls {
			byID[string(c.ID)] = c
		}
		for i, id := range ids {
			out[i].Call, out[i].Earlier = byID[id].Call, byID[id].Earlier
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func scanCards(rows pgx.Rows) (out []Card, calls []string, err error) {
	for rows.Next() {
		var c Card
		var id string
		if err := rows.Scan(&id, &c.Turn, &c.Topic, &c.Message, &c.RequestedBy, &c.Input, &c.Original, &c.Definition, &c.Version,
			&c.Approvers); err != nil {
			return nil, nil, err
		}
		out, calls = append(out, c), append(calls, id)
	}
	return out, calls, rows.Err()
}

const selectCallsByID = `
	select ` + callColumns + `, topic_id, message_id, coalesce(duplicate_of::text, ''), null::bytea
	  from calls
	 where tenant_id = $1 and call_id = any($2::uuid[])`
