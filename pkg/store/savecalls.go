package store

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// saveCalls writes the calls that changed. A call that is queued anew owes a
// new hint; inputs and outputs are written only where they are new.
func (u *unit) saveCalls(b *pgx.Batch, turns []*model.Turn) {
	var c callRows
	var inputIDs []string
	var inputs [][]byte
	for _, t := range turns {
		for _, call := range t.Calls {
			if call.Changed {
				c.add(call)
			}
			if call.NewInput != nil {
				inputIDs, inputs = append(inputIDs, string(call.ID)), append(inputs, call.NewInput)
			}
		}
	}
	if len(inputIDs) > 0 {
		updateInputs.queue(b, nil, u.tenant, inputIDs, inputs)
	}
	if len(c.ids) > 0 {
		updateCalls.queue(b, nil, u.tenant, c.ids, c.states, c.outcomes, c.errors, c.digests, c.edited, c.runs, c.fences, c.tokens,
			c.workers, c.leases, c.queued, c.notBefore, c.started, c.results, c.uncertain, c.outputs)
	}
}

var updateCalls = writesRows(`
	update calls c
	   set state = d.state,
	       outcome = d.outcome,
	       error_text = d.error_text,
	       digest = d.digest,
	       edited = d.edited,
	       run = d.run,
	       fence = d.fence,
	       claim_token = d.claim_token,
	       worker = d.worker,
	       lease_until = d.lease_until,
	       queued_at = d.queued_at,
	       not_before = d.not_before,
	       first_started_at = d.first_started_at,
	       result_digest = d.result_digest,
	       uncertain = d.uncertain,
	       output = coalesce(d.output, c.output),
	       published = case when d.run = 'queued' and c.run <> 'queued' then 0 else c.published end,
	       published_at = case when d.run = 'queued' and c.run <> 'queued' then null else c.published_at end
	  from (select unnest($2::uuid[]) as call_id, unnest($3::text[]) as state, unnest($4::text[]) as outcome,
	               unnest($5::text[]) as error_text, unnest($6::bytea[]) as digest, unnest($7::boolean[]) as edited,
	               unnest($8::text[]) as run, unnest($9::bigint[]) as fence, unnest($10::text[]) as claim_token,
	               unnest($11::text[]) as worker, unnest($12::timestamptz[]) as lease_until,
	               unnest($13::timestamptz[]) as queued_at, unnest($14::timestamptz[]) as not_before,
	               unnest($15::timestamptz[]) as first_started_at, unnest($16::bytea[]) as result_digest,
	               unnest($17::boolean[]) as uncertain, unnest($18::bytea[]) as output) as d
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[])`)

var updateInputs = writesRows(`
	update calls c
	   set original_input = coalesce(c.original_input, c.input),
	       input = d.input
	  from (select unnest($2::uuid[]) as call_id, unnest($3::bytea[]) as input) as d
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[])`)

type callRows struct {
	ids, states, outcomes, errors, runs, tokens, workers []string
	digests, results, outputs                            [][]byte
	edited, uncertain                                    []bool
	fences                                               []int64
	leases, queued, notBefore, started                   []*time.Time
}

func (r *callRows) add(c *model.Call) {
	r.ids = append(r.ids, string(c.ID))
	r.states = append(r.states, string(c.State))
	r.outcomes = append(r.outcomes, string(c.Outcome))
	r.errors = append(r.errors, c.ErrorText)
	r.runs = append(r.runs, string(c.Run))
	r.tokens = append(r.tokens, c.ClaimToken)
	r.workers = append(r.workers, c.Worker)
	r.digests = append(r.digests, c.Digest)
	r.results = append(r.results, c.ResultDigest)
	r.outputs = append(r.outputs, c.NewOutput)
	r.edited = append(r.edited, c.Edited)
	r.uncertain = append(r.uncertain, c.Uncertain)
	r.fences = append(r.fences, c.Fence)
	r.leases = append(r.leases, nullable(c.LeaseUntil))
	r.queued = append(r.queued, nullable(c.QueuedAt))
	r.notBefore = append(r.notBefore, nullable(c.NotBefore))
	r.started = append(r.started, nullable(c.FirstStartedAt))
}

// saveApprovals writes the approvals that were answered or closed: only an
// open one can be, and the statement says so once more (I1).
func (u *unit) saveApprovals(b *pgx.Batch, turns []*model.Turn) {
	var ids, states, reasons, deciders, decisions, channels []string
	var decided []time.Time
	for _, t := range turns {
		for _, c := range t.Calls {
			a := c.Approval
			if a == nil || !a.Changed {
				continue
			}
			ids, states, reasons = append(ids, string(a.ID)), append(states, string(a.State)), append(reasons, a.Reason)
			deciders, decisions = append(deciders, a.DecidedBy), append(decisions, a.DecisionID)
			channels, decided = append(channels, a.Channel), append(decided, a.DecidedAt)
		}
	}
	if len(ids) > 0 {
		updateApprovals.queue(b, nil, u.tenant, ids, states, reasons, deciders, decided, decisions, channels)
	}
}

var updateApprovals = writesRows(`
	update approvals a
	   set state = d.state,
	       reason = d.reason,
	       decided_by = d.decided_by,
	       decided_at = d.decided_at,
	       decision_id = d.decision_id,
	       channel = d.channel
	  from (select unnest($2::uuid[]) as approval_id, unnest($3::text[]) as state, unnest($4::text[]) as reason,
	               unnest($5::text[]) as decided_by, unnest($6::timestamptz[]) as decided_at,
	               unnest($7::text[]) as decision_id, unnest($8::text[]) as channel) as d
	 where a.tenant_id = $1 and a.approval_id = d.approval_id and a.approval_id = any($2::uuid[])
	   and a.state = 'requested'`)
