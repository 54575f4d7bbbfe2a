package store

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// requireInvariants asks the database for rows that contradict each other.
// Each question is one statement, and so one snapshot: it holds at any moment.
func requireInvariants(t *testing.T, s *Store) {
	t.Helper()
	for what, query := range invariants {
		rows, err := s.pool.Query(context.Background(), query)
		if err != nil {
			continue // a connection that was broken on purpose
		}
		wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err == nil && len(wrong) > 0 {
			t.Errorf("%s: %d times, the first %s", what, len(wrong), wrong[0])
		}
	}
}

var invariants = map[string]string{
	"counters of a turn": `
		select t.turn_id::text
		  from turns t
		  left join (select turn_id, count(*) filter (where state = 'approval-requested') as approvals,
		                    count(*) filter (where state not in ('output-available', 'output-error', 'output-denied')) as open,
		                    count(*) filter (where state not in ('output-available', 'output-error', 'output-denied')
		                                       and run = 'outcome-unknown') as unknown
		               from calls group by turn_id) c using (turn_id)
		 where (t.open_approvals, t.open_calls, t.unknown_calls)
		       <> (coalesce(c.approvals, 0), coalesce(c.open, 0), coalesce(c.unknown, 0))`,

	"state of a turn": `
		select t.turn_id || ' is ' || t.state
		  from turns t
		  left join continuations k using (turn_id)
		 where t.state <> case when t.ended <> '' then t.ended
		                       when t.streaming then 'streaming'
		                       when t.open_approvals > 0 then 'awaiting-approval'
		                       when t.open_calls > t.unknown_calls then 'executing'
		                       when t.unknown_calls > 0 then 'needs-attention'
		                       when k.state <> 'accepted' then 'continuing'
		                       else 'done' end
		    or t.streaming <> (t.live_until is not null)`,

	"counters of a topic": `
		select p.topic_id
		  from topics p
		  left join (select topic_id, count(*) filter (where t.state = 'streaming') as streaming,
		                    count(*) filter (where t.state = 'awaiting-approval') as awaiting,
		                    count(*) filter (where t.state = 'needs-attention') as attention,
		                    count(*) filter (where t.state = 'executing') as executing,
		                    count(*) filter (where t.state = 'continuing' and k.state <> 'failed') as continuing,
		                    count(*) filter (where t.state = 'continuing' and k.state = 'failed') as failed,
		                    max(t.version) as version
		               from turns t left join continuations k using (turn_id) group by t.topic_id) t using (topic_id)
		 where (p.streaming, p.awaiting, p.attention, p.executing, p.continuing, p.failed)
		       <> (coalesce(t.streaming, 0), coalesce(t.awaiting, 0), coalesce(t.attention, 0), coalesce(t.executing, 0),
		           coalesce(t.continuing, 0), coalesce(t.failed, 0))
		    or t.version > p.version
		    or p.messages <> (select coalesce(max(position), 0) from messages m where m.topic_id = p.topic_id)
		    or p.messages <> (select count(*) from messages m where m.topic_id = p.topic_id)`,

	"one continuation of each settled turn, and none of others (I2)": `
		select t.turn_id::text
		  from turns t
		  left join continuations k using (turn_id)
		 where (k.turn_id is not null and k.state <> 'superseded')
		       <> (t.ended = '' and not t.streaming and t.open_calls = 0 and exists (select from calls c where c.turn_id = t.turn_id))
		    or k.state = 'superseded' and t.ended = ''`,

	"one turn that goes on from another (I2)": `
		select t.turn_id::text
		  from turns t
		  join continuations k on k.turn_id = t.continues
		 where not t.discarded and k.accepted_by is distinct from t.turn_id
		 union all
		select k.turn_id::text
		  from continuations k
		  left join turns t on t.turn_id = k.accepted_by
		 where k.state = 'accepted' and (t.continues is distinct from k.turn_id or t.discarded)`,

	"state of an approval and of its call (I1)": `
		select a.approval_id || ' is ' || a.state || ', its call ' || c.state
		  from approvals a
		  join calls c using (call_id)
		 where case a.state when 'requested' then c.state <> 'approval-requested'
		                    when 'approved' then c.state not in ('approval-responded', 'output-available', 'output-error')
		                    else c.state <> 'output-denied' end`,

	"a decision behind each verdict (I1, I3)": `
		select a.approval_id::text
		  from approvals a
		  join calls c using (call_id)
		 where a.state in ('approved', 'denied')
		   and (not exists (select from decisions d
		                     where d.approval_id = a.approval_id and d.decision_id = a.decision_id and d.decided_by = a.decided_by
		                       and d.approved = (a.state = 'approved') and (not d.approved or d.digest = c.digest))
		        or a.state = 'approved' and (a.rule->>'quorum')::int > (select count(distinct d.decided_by) from decisions d
		                     where d.approval_id = a.approval_id and d.approved and d.digest = c.digest)
		        or (select count(*) from audit u where u.approval_id = a.approval_id and u.action = 'approval.' || a.state) <> 1)`,

	"every attempt on the call (I4)": `
		select c.call_id || ' with fence ' || c.fence || ', ' || c.run
		  from calls c
		  left join (select call_id, count(*) as n, max(fence) as last, count(*) filter (where finished_at is null) as open
		               from attempts group by call_id) a using (call_id)
		 where c.fence <> coalesce(a.n, 0) or c.fence <> coalesce(a.last, 0)
		    or coalesce(a.open, 0) <> (c.run = 'started')::int
		    or c.fence > c.max_attempts`,

	"another attempt of an unsafe call only after one that sent nothing (I4)": `
		select c.call_id::text
		  from calls c
		  join attempts a using (call_id)
		 where c.effect = 'unsafe' and a.fence < c.fence and a.outcome <> 'nothing-sent'`,

	"a run only where it may be (I5, I6)": `
		select c.call_id || ' ' || c.state || ' ' || c.run || ' in a turn that is ' || t.state
		  from calls c
		  join turns t using (turn_id)
		  left join approvals a using (call_id)
		 where c.run <> '' and coalesce(a.state = 'approved', c.allowed_by <> '') is not true
		    or c.run = 'queued' and t.ended <> ''
		    or (c.state = 'output-available') <> (c.run = 'succeeded')
		    or c.run in ('queued', 'started', 'outcome-unknown') and c.state not in ('input-available', 'approval-responded')
		    or c.run = '' and t.ended = '' and c.state in ('input-available', 'approval-responded') and t.open_approvals = 0`,
}
