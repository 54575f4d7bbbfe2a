package store

// What was decided stays decided, and somebody decided it (I1, I3).
var invariantsOfVerdicts = []Invariant{{
	Number: "I1", Name: "call-as-approved",
	Sentence: "A call's part state is the one that its approval gives it.",
	Next:     "the approval's row, its decisions and its audit: which of the two was changed by something that is no transaction of Countersign?",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       'its approval is ' || coalesce(a.state, 'not there') || ', the call ' || c.state
	  from {calls} c
	  left join {approvals} a using (tenant_id, turn_id, call_id)
	 where case coalesce(a.state, '')
	         when '' then c.state in ('approval-requested', 'approval-responded', 'output-denied')
	         when 'requested' then c.state <> 'approval-requested'
	         when 'approved' then c.state not in ('approval-responded', 'output-available', 'output-error')
	         else c.state <> 'output-denied' end`,
}, {
	Number: "I1", Name: "verdict-is-final",
	Sentence: "A verdict that was audited is the one that stands, and there is one.",
	Next:     "the approval's audit: the first of its verdicts is the one that people were told",
	sql: `
	select a.tenant_id, a.topic_id, a.turn_id::text, a.call_id::text,
	       'approval ' || a.approval_id || ' is ' || a.state || ', audited: ' || string_agg(substr(u.action, 10), ', ' order by u.audit_id)
	  from {approvals} a
	  join {audit} u using (tenant_id, approval_id)
	 where u.action in ('approval.approved', 'approval.denied', 'approval.expired', 'approval.lapsed', 'approval.cancelled',
	                    'approval.superseded')
	 group by a.tenant_id, a.topic_id, a.turn_id, a.call_id, a.approval_id, a.state
	having count(*) > 1 or min(u.action) <> 'approval.' || a.state`,
}, {
	Number: "I1", Name: "answers-give-the-verdict",
	Sentence: "A denial, or as many approvals as the rule asks for, is the verdict in the same commit.",
	Next:     "the approval's decisions: an answer was taken that did not become the verdict",
	sql: `
	select a.tenant_id, a.topic_id, a.turn_id::text, a.call_id::text, 'approval ' || a.approval_id || ' is ' || a.state || ', its answers say otherwise'
	  from {approvals} a
	  join {calls} c using (tenant_id, turn_id, call_id)
	 where a.state <> 'denied' and exists (select from decisions d
	         where d.tenant_id = a.tenant_id and d.approval_id = a.approval_id and not d.approved)
	    or a.state = 'requested' and (a.rule->>'quorum')::int <= (select count(distinct d.decided_by) from decisions d
	         where d.tenant_id = a.tenant_id and d.approval_id = a.approval_id and d.approved and d.digest = c.digest)`,
}, {
	Number: "I3", Name: "decision-behind-verdict",
	Sentence: "Behind each person's verdict is the decision that gave it, and behind an approval as many people as its rule asks for, of exactly this input.",
	Next:     "the decisions of the approval: was one deleted, or was the approval's row written by hand?",
	sql: `
	select a.tenant_id, a.topic_id, a.turn_id::text, a.call_id::text,
	       'approval ' || a.approval_id || ' is ' || a.state || ' by ' || a.decided_by || ' without the decisions that this takes'
	  from {approvals} a
	  join {calls} c using (tenant_id, turn_id, call_id)
	 where a.state in ('approved', 'denied') and not (a.state = 'denied' and a.decision_id = '')
	   and (not exists (select from decisions d
	                     where d.tenant_id = a.tenant_id and d.decision_id = a.decision_id and d.approval_id = a.approval_id
	                       and d.decided_by = a.decided_by and d.approved = (a.state = 'approved')
	                       and (not d.approved or d.digest = c.digest))
	        or a.state = 'approved' and (a.rule->>'quorum')::int > (select count(distinct d.decided_by) from decisions d
	                     where d.tenant_id = a.tenant_id and d.approval_id = a.approval_id and d.approved and d.digest = c.digest))`,
}}
