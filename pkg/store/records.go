package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// saveRecords appends the rows that only grow.
func (u *unit) saveRecords(b *pgx.Batch) {
	var all model.Records
	for _, t := range u.sorted() {
		all.Decisions = append(all.Decisions, t.Records.Decisions...)
		all.Attempts = append(all.Attempts, t.Records.Attempts...)
		all.Audit = append(all.Audit, t.Records.Audit...)
	}
	u.insertDecisions(b, all.Decisions)
	u.saveAttempts(b, all.Attempts)
	insertAudit(b, u.tenant, all.Audit)
}

func (u *unit) insertDecisions(b *pgx.Batch, records []model.DecisionRecord) {
	if len(records) == 0 {
		return
	}
	var ids, approvals, calls, reasons, by, keys, channels []string
	var approved, edited []bool
	var digests, contents [][]byte
	var at []time.Time
	for _, r := range records {
		ids, approvals, calls = append(ids, r.ID), append(approvals, string(r.Approval)), append(calls, string(r.Call))
		reasons, by, keys, channels = append(reasons, r.Reason), append(by, r.By), append(keys, r.Key), append(channels, r.Channel)
		approved, edited, at = append(approved, r.Approved), append(edited, r.Edited), append(at, r.At)
		digests, contents = append(digests, r.Digest), append(contents, r.Content)
	}
	insertDecisions.queue(b, nil, u.tenant, ids, approvals, calls, approved, reasons, digests, edited, by, keys, channels, at, contents)
}

var insertDecisions = writesRows(`
	insert into decisions (tenant_id, decision_id, approval_id, call_id, approved, reason, digest, edited, decided_by, key_name,
	                       channel, decided_at, content)
	select $1, unnest($2::text[]), unnest($3::uuid[]), unnest($4::uuid[]), unnest($5::boolean[]), unnest($6::text[]),
	       unnest($7::bytea[]), unnest($8::boolean[]), unnest($9::text[]), unnest($10::text[]), unnest($11::text[]),
	       unnest($12::timestamptz[]), unnest($13::bytea[])`)

func (u *unit) saveAttempts(b *pgx.Batch, records []model.AttemptRecord) {
	var opened, closed attemptRows
	for _, r := range records {
		if r.Started {
			opened.add(r)
		} else {
			closed.add(r)
		}
	}
	if len(opened.calls) > 0 {
		openAttempts.queue(b, nil, u.tenant, opened.calls, opened.fences, opened.tokens, opened.workers, opened.at)
	}
	if len(closed.calls) > 0 {
		closeAttempts.queue(b, nil, u.tenant, closed.calls, closed.fences, closed.at, closed.outcomes, closed.details)
	}
}

var openAttempts = writesRows(`
	insert into attempts (tenant_id, call_id, fence, claim_token, worker, started_at)
	select $1, unnest($2::uuid[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::text[]), unnest($6::timestamptz[])`)

var closeAttempts = writesRows(`
	update attempts a
	   set finished_at = d.at,
	       outcome = d.outcome,
	       detail = d.detail
	  from (select unnest($2::uuid[]) as call_id, unnest($3::bigint[]) as fence, unnest($4::timestamptz[]) as at,
	               unnest($5::text[]) as outcome, unnest($6::text[]) as detail) as d
	 where a.tenant_id = $1 and a.call_id = d.call_id and a.fence = d.fence and a.call_id = any($2::uuid[])`)

type attemptRows struct {
	calls, tokens, workers, outcomes, details []string
	fences                                    []int64
	at                                        []time.Time
}

func (r *attemptRows) add(a model.AttemptRecord) {
	r.calls, r.fences, r.at = append(r.calls, string(a.Call)), append(r.fences, a.Fence), append(r.at, a.At)
	r.tokens, r.workers = append(r.tokens, a.Token), append(r.workers, a.Worker)
	r.outcomes, r.details = append(r.outcomes, a.Outcome), append(r.details, a.Detail)
}

func insertAudit(b *pgx.Batch, tenant model.TenantID, records []model.AuditRecord) {
	if len(records) == 0 {
		return
	}
	var actors, actions, channels, topics, turns, calls, approvals, details []string
	var digests [][]byte
	var at []time.Time
	for _, r := range records {
		actors, actions, channels = append(actors, r.Actor), append(actions, r.Action), append(channels, r.Channel)
		topics, turns, calls = append(topics, string(r.Topic)), append(turns, string(r.Turn)), append(calls, string(r.Call))
		approvals, details = append(approvals, string(r.Approval)), append(details, r.Detail)
		digests, at = append(digests, r.Digest), append(at, r.At)
	}
	insertAuditRows.queue(b, nil, tenant, at, actors, actions, channels, topics, turns, calls, approvals, details, digests)
}

var insertAuditRows = writesRows(`
	insert into audit (tenant_id, at, actor, action, channel, topic_id, turn_id, call_id, approval_id, detail, digest)
	select $1, d.at, d.actor, d.action, d.channel, d.topic_id, nullif(d.turn_id, '')::uuid, nullif(d.call_id, '')::uuid,
	       nullif(d.approval_id, '')::uuid, d.detail, d.digest
	  from (select unnest($2::timestamptz[]) as at, unnest($3::text[]) as actor, unnest($4::text[]) as action,
	               unnest($5::text[]) as channel, unnest($6::text[]) as topic_id, unnest($7::text[]) as turn_id,
	               unnest($8::text[]) as call_id, unnest($9::text[]) as approval_id, unnest($10::text[]) as detail,
	               unnest($11::bytea[]) as digest) as d`)
