package store

// The audit says what happened: nothing happened that it does not say, and it
// says nothing that did not happen (I10).
var invariantsOfAudit = []Invariant{{
	Number: "I10", Name: "decisions-are-audited",
	Sentence: "Each decision has its line in the audit, and each such line its decision.",
	Next:     "both tables only grow: a row was deleted or added by hand",
	sql: `
	select d.tenant_id, '', '', d.call_id::text, 'decision ' || d.decision_id || ' by ' || d.decided_by || ' is not audited'
	  from {decisions} d
	 where d.decided_at >= @since::timestamptz
	   and not exists (select from {audit} u
	          where u.tenant_id = d.tenant_id and u.approval_id = d.approval_id and u.at = d.decided_at
	            and u.action in ('approval.approved', 'approval.denied', 'approval.recorded'))
	 union all
	select u.tenant_id, u.topic_id, u.turn_id::text, u.call_id::text, u.action || ' by ' || u.actor || ' is audited without a decision'
	  from {audit} u
	 where u.action in ('approval.approved', 'approval.denied', 'approval.recorded')
	   and not exists (select from decisions d
	          where d.tenant_id = u.tenant_id and d.approval_id = u.approval_id and d.decided_at = u.at)`,
}, {
	Number: "I10", Name: "attempts-are-audited",
	Sentence: "Each attempt's start and its end have their lines in the audit, and each line of a start its attempt.",
	Next:     "the call's attempts: what ran cannot be proven from the audit alone",
	sql: `
	select a.tenant_id, '', '', a.call_id::text, 'attempt ' || a.fence || ': its start or its end is not audited'
	  from {attempts} a
	 where a.started_at >= @since::timestamptz and not exists (select from {audit} u
	          where u.tenant_id = a.tenant_id and u.call_id = a.call_id and u.at = a.started_at and u.action = 'attempt.started')
	    or a.finished_at >= @since::timestamptz and not exists (select from {audit} u
	          where u.tenant_id = a.tenant_id and u.call_id = a.call_id and u.at = a.finished_at and u.action = 'attempt.' || a.outcome)
	 union all
	select u.tenant_id, u.topic_id, u.turn_id::text, u.call_id::text, u.detail || ' is audited as started, and is not there'
	  from {audit} u
	 where u.action = 'attempt.started'
	   and not exists (select from attempts a
	          where a.tenant_id = u.tenant_id and a.call_id = u.call_id and a.started_at = u.at)`,
}, {
	Number: "I10", Name: "resolutions-are-audited",
	Sentence: "Each resolution of an unknown outcome has its line in the audit, and each such line its resolution.",
	Next:     "the call's row: who said what happened is not known, or was changed",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'its resolution, ' || c.resolution || ' by ' || c.resolved_by || ', is not audited'
	  from {calls} c
	 where c.resolved_at >= @since::timestamptz
	   and not exists (select from {audit} u
	          where u.tenant_id = c.tenant_id and u.call_id = c.call_id and u.at = c.resolved_at and u.action = 'call.resolved')
	 union all
	select u.tenant_id, u.topic_id, u.turn_id::text, u.call_id::text, 'it is audited as resolved by ' || u.actor || ', and is not'
	  from {audit} u
	 where u.action = 'call.resolved'
	   and not exists (select from calls c
	          where c.tenant_id = u.tenant_id and c.call_id = u.call_id and c.resolved_at = u.at)`,
}, {
	Number: "I10", Name: "calls-are-audited",
	Sentence: "What the policies said about a call at its registration is in the audit, once, of the input that was registered.",
	Next:     "the call's turn: who registered it is not known any more",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'its registration has ' || count(u.audit_id) || ' lines in the audit'
	  from {calls} c
	  left join {audit} u on u.tenant_id = c.tenant_id and u.call_id = c.call_id
	       and u.action in ('call.allowed', 'call.denied', 'call.refused', 'approval.requested')
	       and (c.edited or u.digest = c.digest)
	 where c.created_at >= @since::timestamptz + interval '10 seconds'
	 group by c.tenant_id, c.topic_id, c.turn_id, c.call_id
	having count(u.audit_id) <> 1`,
}, {
	Number: "I10", Name: "closed-is-audited",
	Sentence: "What closed an approval is in the audit.",
	Next:     "the approval's row: it was closed by something that is no transaction of Countersign",
	sql: `
	select a.tenant_id, a.topic_id, a.turn_id::text, a.call_id::text, 'approval ' || a.approval_id || ' was ' || a.state || ', which is not audited'
	  from {approvals} a
	 where a.decided_at >= @since::timestamptz
	   and not exists (select from {audit} u
	          where u.tenant_id = a.tenant_id and u.approval_id = a.approval_id and u.at = a.decided_at
	            and (u.action = 'approval.' || a.state or u.action = 'call.denied' and a.state = 'denied'))`,
}, {
	Number: "I10", Name: "link-fits-row",
	Sentence: "A link's hash is that of the link before it and of its audit row.",
	Next:     "a backup: the audit row was changed, or the link was",
	sql: `
	select c.tenant_id, coalesce(u.topic_id, ''), u.turn_id::text, u.call_id::text,
	       'link ' || c.seq || ' of audit row ' || c.audit_id || case when u.audit_id is null then ', which is not there' else ', which is not as it was linked' end
	  from {chain} c
	  left join audit u using (tenant_id, audit_id)
	 where u.audit_id is null or c.hash <> sha256(c.prev || ` + canonicalAudit + `)`,
}, {
	Number: "I10", Name: "links-in-order",
	Sentence: "A tenant's links are numbered from 1 without a gap, and each holds the hash of the one before it.",
	Next:     "a backup: links were deleted, added or put in another order",
	sql: `
	select c.tenant_id, '', '', '', 'link ' || c.seq || case when c.seq > 1 and b.seq is null then ' has none before it' else ' does not follow the one before it' end
	  from {chain} c
	  left join audit_chain b on b.tenant_id = c.tenant_id and b.seq = c.seq - 1
	 where c.prev is distinct from case when c.seq = 1 then sha256(convert_to('countersign-audit-v1 ' || c.tenant_id, 'UTF8')) else b.hash end`,
}, {
	Number: "I10", Name: "rows-are-linked",
	Sentence: "Every audit row of a transaction before the chainer's horizon is in its tenant's chain.",
	Next:     "a backup: links were cut off, or the audit row was put there by hand",
	sql: `
	select u.tenant_id, u.topic_id, u.turn_id::text, u.call_id::text, 'audit row ' || u.audit_id || ', ' || u.action || ' by ' || u.actor || ', has no link'
	  from {audit} u
	 where u.xid < (select horizon from audit_chainer)
	   and not exists (select from audit_chain c where c.tenant_id = u.tenant_id and c.audit_id = u.audit_id)`,
}, {
	Number: "I10", Name: "rows-are-linked-in-time", AtRest: true,
	Sentence: "Every audit row is linked within a second.",
	Next:     "whether a continuer runs: one of them links the audit",
	sql: `
	select u.tenant_id, u.topic_id, u.turn_id::text, u.call_id::text, 'audit row ' || u.audit_id || ' of ' || u.at || ' is not linked yet'
	  from audit u
	 where u.xid >= (select horizon from audit_chainer) and u.at <= now() - greatest(@late::interval, interval '2 seconds')
	   and not exists (select from audit_chain c where c.tenant_id = u.tenant_id and c.audit_id = u.audit_id)`,
}}
