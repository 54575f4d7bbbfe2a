package store

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// makeTopics makes the topics that are new, and holds those.
func (r *registrar) makeTopics(b *pgx.Batch) {
	b.Queue(insertTopics, r.tenant, r.columns().topics).Query(r.scanTopics)
	r.clock(b)
}

// allNew tells whether nothing can stand under the items' identities, since
// this transaction has just made all of their topics.
func (r *registrar) allNew() bool {
	return !slices.ContainsFunc(r.items, func(it registerItem) bool {
		return it.Continues != "" || r.topics[it.Topic] == nil
	})
}

// read locks what the registrations touch, and finds what stands under their
// identities. Topics are locked after the turns and before the identities are
// read, so that two registrations of one topic see each other.
func (r *registrar) read(b *pgx.Batch) {
	items := r.columns()
	r.load(b, registrationTurns, items.topics, items.messages, items.continues)
	b.Queue(selectTopicsLocked, r.tenant, items.topics).Query(r.scanTopics)
	b.Queue(selectIdentities, r.tenant, items.topics, items.messages, items.continues, items.toolCalls).Query(r.scanIdentities)
	r.clock(b)
}

// insertTopics makes topics in order, so that no two batches wait for each
// other, and gives those that it made.
const insertTopics = `
	insert into topics (tenant_id, topic_id)
	select $1, topic_id
	  from (select distinct unnest($2::text[]) as topic_id) d
	 order by topic_id
	    on conflict do nothing
	returning ` + topicColumns

const selectTopicsLocked = `
	select ` + topicColumns + `
	  from topics
	 where tenant_id = $1 and topic_id = any($2::text[])
	 order by topic_id
	   for no key update`

// registrationTurns: the turns that are continued, those that are open in the
// topics, and those that have a registration's identity already.
const registrationTurns = `
	select turn_id from turns
	 where tenant_id = $1 and topic_id = any($2::text[]) and open
	 union
	select nullif(continues, '')::uuid from unnest($4::text[]) as i (continues)
	 union
	select t.turn_id
	  from unnest($2::text[], $3::text[], $4::text[]) as i (topic_id, message_id, continues)
	  join turns t on t.tenant_id = $1 and t.topic_id = i.topic_id and t.topic_id = any($2::text[]) and not t.discarded
	              and not t.reply and t.message_id = coalesce(nullif(i.message_id, ''), (
	                    select ` + messageAfter + ` from turns c
	                     where c.tenant_id = $1 and c.turn_id = nullif(i.continues, '')::uuid))
	              and t.continues is not distinct from nullif(i.continues, '')::uuid`

// messageAfter is the message of whatever continues a turn c: its own, to
// which the next step is appended, or the one that answers a person's (see
// [model.ReplyID]).
const messageAfter = `case when c.reply then 'msg_' || c.turn_id else c.message_id end`

const selectIdentities = `
	with item as (
	    select i.ord::int as ord, i.topic_id, nullif(i.continues, '')::uuid as continues,
	           coalesce(nullif(i.message_id, ''), ` + messageAfter + `, '') as message_id
	      from unnest($2::text[], $3::text[], $4::text[]) with ordinality as i (topic_id, message_id, continues, ord)
	      left join turns c on c.tenant_id = $1 and c.turn_id = nullif(i.continues, '')::uuid
	                       and c.turn_id = any(array(select nullif(n, '')::uuid from unnest($4::text[]) n))
	)
	select i.ord, i.message_id, coalesce(t.turn_id::text, ''), t.content, m.role,
	       (select coalesce(max(x.step) + 1, 0) from turns x
	         where x.tenant_id = $1 and x.topic_id = i.topic_id and x.message_id = i.message_id),
	       not exists (select from turns x
	                    where x.tenant_id = $1 and x.topic_id = i.topic_id and x.message_id = i.message_id and not x.discarded),
	       array(select c.tool_call_id from calls c
	              where c.tenant_id = $1 and c.turn_id = any(array(
	                    select x.turn_id from turns x
	                     where x.tenant_id = $1 and x.topic_id = i.topic_id and x.message_id = i.message_id))
	                and c.tool_call_id = any($5::text[]))
	  from item i
	  left join messages m on m.tenant_id = $1 and m.topic_id = i.topic_id and m.topic_id = any($2::text[])
	                      and m.message_id = i.message_id
	  left join turns t on t.tenant_id = $1 and t.topic_id = i.topic_id and t.topic_id = any($2::text[])
	                   and t.message_id = i.message_id
	                   and t.continues is not distinct from i.continues and not t.discarded and not t.reply`

type registrationColumns struct{ topics, messages, continues, toolCalls []string }

func (r *registrar) columns() (c registrationColumns) {
	for i := range r.items {
		it := &r.items[i]
		c.topics = append(c.topics, string(it.Topic))
		c.messages = append(c.messages, string(it.Message))
		c.continues = append(c.continues, string(it.Continues))
		for j := range it.Calls {
			c.toolCalls = append(c.toolCalls, it.Calls[j].Call.ToolCallID)
		}
	}
	return c
}

func (r *registrar) scanIdentities(rows pgx.Rows) error {
	for rows.Next() {
		var (
			ord   int
			f     identified
			role  *string
			steps int
			void  bool
		)
		if err := rows.Scan(&ord, &f.message, &f.turn, &f.content, &role, &steps, &void, &f.used); err != nil {
			return err
		}
		it := &r.items[ord-1]
		f.used = slices.DeleteFunc(f.used, func(id string) bool {
			return !slices.ContainsFunc(it.Calls, func(c NewCall) bool { return c.Call.ToolCallID == id })
		})
		if role != nil {
			f.row = &messageRow{role: *role, steps: steps, void: void}
		}
		r.found[ord-1] = f
	}
	r.again = r.stale()
	return rows.Err()
}

// stale tells whether a turn came in between the locks: one that is open in a
// topic but not held, or that has an identity but is not held.
func (r *registrar) stale() bool {
	for i := range r.items {
		if f := r.found[i]; f.turn != "" && r.turns[f.turn] == nil {
			return true
		}
		if topic := r.topics[r.items[i].Topic]; topic == nil || r.unheld(topic) {
			return true
		}
	}
	return false
}
