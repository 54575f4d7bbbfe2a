package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// saveUnknowns marks the calls whose outcome has just become unknown, and
// counts them on their topics: a topic that never had one is never searched
// for what a new call may repeat.
func (u *unit) saveUnknowns(b *pgx.Batch, turns []*model.Turn) {
	var ids, topics []string
	var at []time.Time
	for _, t := range turns {
		for _, c := range t.Calls {
			if !c.UnknownAt.IsZero() {
				ids, topics, at = append(ids, string(c.ID)), append(topics, string(t.Topic)), append(at, c.UnknownAt)
			}
		}
	}
	if len(ids) > 0 {
		b.Queue(markUnknown, u.tenant, ids, at)
		b.Queue(countUnknowns, u.tenant, topics)
	}
}

const (
	markUnknown = `
	update calls c
	   set unknown_at = d.at
	  from unnest($2::uuid[], $3::timestamptz[]) as d (call_id, at)
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[])`

	countUnknowns = `
	update topics t
	   set unknowns = t.unknowns + d.n
	  from (select topic_id, count(*)::int as n from unnest($2::text[]) topic_id group by topic_id) d
	 where t.tenant_id = $1 and t.topic_id = d.topic_id and t.topic_id = any($2::text[])`
)

// repeatable is what makes a call the repetition of another.
type repeatable struct {
	topic model.TopicID
	tool  string
	input [sha256.Size]byte
}

// readSuspects finds the calls that new ones may repeat, in topics that had a
// call of unknown outcome; it asks nothing where there is none.
func (u *unit) readSuspects(ctx context.Context, t *tx, topics map[model.TopicID]*model.Topic) error {
	var ids []string
	for id, topic := range topics {
		if topic.Unknowns > 0 {
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	u.suspects = map[repeatable]model.CallID{}
	return t.trip(ctx, func(b *pgx.Batch) { b.Queue(selectOnceUnknown, u.tenant, ids).Query(u.scanSuspects) })
}

// selectOnceUnknown compares with what ran and with what the model had asked
// for, where a person changed it.
const selectOnceUnknown = `
	select topic_id, tool, sha256(input), sha256(coalesce(original_input, input)), call_id::text
	  from calls
	 where tenant_id = $1 and topic_id = any($2::text[]) and unknown_at is not null
	 order by call_id`

func (u *unit) scanSuspects(rows pgx.Rows) error {
	for rows.Next() {
		var topic model.TopicID
		var tool string
		var input, original []byte
		var call model.CallID
		if err := rows.Scan(&topic, &tool, &input, &original, &call); err != nil {
			return err
		}
		for _, sum := range [][]byte{input, original} {
			u.suspects[repeatable{topic, tool, [sha256.Size]byte(sum)}] = call
		}
	}
	return rows.Err()
}

// suspect marks a new call that may repeat an earlier one.
func (u *unit) suspect(topic model.TopicID, c *model.Call, input []byte) {
	if len(u.suspects) == 0 {
		return
	}
	if earlier, found := u.suspects[repeatable{topic, c.Tool.Name, sha256.Sum256(input)}]; found {
		c.SuspectDuplicate(earlier)
	}
}

// saveDuplicates says on new calls what they may repeat.
func (u *unit) saveDuplicates(b *pgx.Batch) {
	var ids, earlier []string
	for _, t := range u.turns {
		for _, c := range t.Calls {
			if c.DuplicateOf != "" {
				ids, earlier = append(ids, string(c.ID)), append(earlier, string(c.DuplicateOf))
			}
		}
	}
	if len(ids) > 0 {
		b.Queue(updateDuplicates, u.tenant, ids, earlier)
	}
}

const updateDuplicates = `
	update calls c
	   set duplicate_of = d.earlier
	  from unnest($2::uuid[], $3::uuid[]) as d (call_id, earlier)
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[])`

// queueUnknowns reads what few calls have: the rest of a resolution, and how
// the call stands that one may repeat.
func queueUnknowns(b *pgx.Batch, tenant any, calls []CallView) {
	resolved, repeated := map[model.CallID]*model.Call{}, map[model.CallID][]*Earlier{}
	var ids, earlier []string
	for _, c := range calls {
		if c.Resolution != nil {
			ids, resolved[c.ID] = append(ids, string(c.ID)), c.Call
		}
		if e := c.Earlier; e != nil {
			earlier, repeated[e.Call] = append(earlier, string(e.Call)), append(repeated[e.Call], e)
		}
	}
	if len(ids) > 0 {
		b.Queue(selectResolvers, tenant, ids).Query(func(rows pgx.Rows) error { return attachResolutions(rows, resolved) })
	}
	if len(earlier) > 0 {
		b.Queue(selectEarlier, tenant, earlier).Query(func(rows pgx.Rows) error { return attachEarlier(rows, repeated) })
	}
}

const selectEarlier = `
	select call_id::text, state, run, resolution
	  from calls
	 where tenant_id = $1 and call_id = any($2::uuid[])`

func attachEarlier(rows pgx.Rows, repeated map[model.CallID][]*Earlier) error {
	for rows.Next() {
		var e Earlier
		if err := rows.Scan(&e.Call, &e.State, &e.Run, &e.Resolution); err != nil {
			return err
		}
		for _, of := range repeated[e.Call] {
			*of = e
		}
	}
	return rows.Err()
}
