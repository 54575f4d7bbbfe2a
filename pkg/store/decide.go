package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Decided is what a decision came to. Turn and Call are set whenever the
// approval exists, with an error too: they are what explains it.
type Decided struct {
	Result    model.DecisionResult
	Turn      *model.Turn
	Call      *model.Call
	Topic     model.Topic
	Approvers []string // who has approved the card as it stands
}

// Decide answers an approval: the verdict, everything that follows from it,
// and the record of who said so are one commit. Errors, each with Turn and
// Call unless it is the first: [model.ErrNotFound],
// [model.ErrDecisionIDReused], [model.ErrNotPermitted],
// [model.ErrApprovalClosed], [model.ErrAlreadyDecided],
// [model.ErrCardStale].
func (s *Store) Decide(ctx context.Context, tenant model.TenantID, d model.Decision) (Decided, error) {
	return s.decide.submit(ctx, tenant, decideItem{Decision: d, unseen: new(bool)})
}

// decideItem remembers that a try did not find its id: if a later one does,
// it was applied by the try before, whose commit was not known.
type decideItem struct {
	model.Decision
	unseen *bool
}

func (s *Store) decideAll(ctx context.Context, tenant model.TenantID, items []decideItem) ([]outcome[Decided], error) {
	var out []outcome[Decided]
	err := transact(ctx, s.hot, "decide", func(ctx context.Context, t *tx) error {
		d := &decider{unit: newUnit(tenant), items: items}
		if err := t.trip(ctx, d.read); err != nil {
			return err
		}
		out = d.judge()
		changed, err := d.dirty()
		if err != nil {
			return err
		}
		if !changed {
			err = t.confirm(ctx, d.readTopics)
		} else {
			err = t.commit(ctx, func(b *pgx.Batch) { d.readTopics(b); d.saveChanged(b) })
		}
		if err != nil {
			return err
		}
		for i := range out {
			out[i].value.Topic = d.topicOf(out[i].value.Turn)
		}
		s.changed(d.changes())
		return nil
	})
	return out, err
}

// decider is one decide transaction.
type decider struct {
	*unit
	items   []decideItem
	byID    map[string]*model.DecisionRecord
	answers map[model.ApprovalID][]model.DecisionRecord
}

func (d *decider) read(b *pgx.Batch) {
	approvals, ids := make([]string, len(d.items)), make([]string, len(d.items))
	for i, it := range d.items {
		approvals[i], ids[i] = string(it.Approval), it.ID
	}
	d.loadByCalls(b, approvalTurns, approvals)
	b.Queue(selectDecisions, d.tenant, approvals, ids).Query(d.scanDecisions)
	d.clock(b)
}

const approvalTurns = `
	select turn_id from approvals
	 where tenant_id = $1 and approval_id = any($2::uuid[])`

const selectDecisions = `
	select decision_id, approval_id::text, call_id::text, approved, reason, digest, edited, decided_by, key_name, channel,
	       decided_at, content
	  from decisions
	 where tenant_id = $1 and approval_id = any($2::uuid[])
	 union all
	select decision_id, approval_id::text, call_id::text, approved, reason, digest, edited, decided_by, key_name, channel,
	       decided_at, content
	  from decisions
	 where tenant_id = $1 and decision_id = any($3::text[])`

func (d *decider) scanDecisions(rows pgx.Rows) error {
	d.byID, d.answers = map[string]*model.DecisionRecord{}, map[model.ApprovalID][]model.DecisionRecord{}
	var found []model.DecisionRecord
	for rows.Next() {
		var r model.DecisionRecord
		if err := rows.Scan(&r.ID, &r.Approval, &r.Call, &r.Approved, &r.Reason, &r.Digest, &r.Edited, &r.By, &r.Key, &r.Channel,
			&r.At, &r.Content); err != nil {
			return err
		}
		found = append(found, r)
	}
	slices.SortFunc(found, func(a, b model.DecisionRecord) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range found {
		if d.byID[r.ID] == nil { // it may have been found by both
			d.record(r)
		}
	}
	return rows.Err()
}

func (d *decider) record(r model.DecisionRecord) {
	d.byID[r.ID] = &r
	d.answers[r.Approval] = append(d.answers[r.Approval], r)
}

// judge answers the items in order, each as if those before it had been
// committed.
func (d *decider) judge() []outcome[Decided] {
	turns := map[model.ApprovalID]*model.Turn{}
	for _, t := range d.turns {
		for _, c := range t.Calls {
			if c.Approval != nil {
				turns[c.Approval.ID] = t
			}
		}
	}
	out := make([]outcome[Decided], len(d.items))
	for i, it := range d.items {
		if t := turns[it.Approval]; t != nil {
			out[i] = d.one(t, it)
		} else {
			out[i] = outcome[Decided]{err: model.ErrNotFound}
		}
	}
	return out
}

func (d *decider) one(t *model.Turn, it decideItem) outcome[Decided] {
	same := d.byID[it.ID]
	recorded := len(t.Records.Decisions)
	result, err := t.Decide(it.Decision, model.Answers{SameID: same, Approval: d.answers[it.Approval]}, d.now)
	for _, r := range t.Records.Decisions[recorded:] {
		d.record(r)
	}
	call := t.Asked(it.Approval)
	if result == model.DecisionAlreadyApplied && same != nil && *it.unseen {
		// It is the verdict, or was one of the answers before another's.
		if result = model.DecisionRecorded; call.Approval.DecisionID == it.ID {
			result = model.DecisionApplied
		}
	}
	*it.unseen = *it.unseen || same == nil
	if call.Approval.State == model.ApprovalRequested && result != "" {
		result = model.DecisionRecorded
	}
	return outcome[Decided]{Decided{
		Result: result, Turn: t, Call: call, Approvers: model.Approvers(d.answers[it.Approval], call.Digest),
	}, err}
}

// readTopics reads the topics of answers that changed nothing; those that the
// transaction changes are known from its own update.
func (u *unit) readTopics(b *pgx.Batch) {
	var untouched []string
	for _, t := range u.turns {
		if !t.Changed {
			untouched = append(untouched, string(t.Topic))
		}
	}
	if len(untouched) > 0 {
		b.Queue(selectTopicsSeen, u.tenant, untouched).Query(u.scanTopicsRead)
	}
}

const selectTopicsSeen = `
	select ` + topicColumns + `
	  from topics
	 where tenant_id = $1 and topic_id = any($2::text[])`

// topicOf is the topic of a turn after the transaction, for its answer.
func (u *unit) topicOf(t *model.Turn) model.Topic {
	if t == nil {
		return model.Topic{}
	}
	if topic := u.topics[t.Topic]; topic != nil {
		return *topic
	}
	if topic := u.seen[t.Topic]; topic != nil {
		return *topic
	}
	return model.Topic{}
}
