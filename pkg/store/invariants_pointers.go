package store

// Rows that name each other belong together (I7, I9).
var invariantsOfPointers = []Invariant{{
	Number: "I7", Name: "card-has-its-row",
	Sentence: "Every card that was audited as asked can be found, with the call that it asks about.",
	Next:     "backups: rows are never deleted",
	sql: `
	select u.tenant_id, u.topic_id, u.turn_id::text, coalesce(u.call_id::text, ''), u.action || ' is audited of a row that is not there'
	  from {audit} u
	 where u.turn_id is not null and not exists (select from turns t where t.tenant_id = u.tenant_id and t.turn_id = u.turn_id)
	    or u.call_id is not null and not exists (select from calls c where c.tenant_id = u.tenant_id and c.call_id = u.call_id)
	    or u.approval_id is not null
	       and not exists (select from approvals a where a.tenant_id = u.tenant_id and a.approval_id = u.approval_id)`,
}, {
	Number: "I7", Name: "tool-call-id-unique",
	Sentence: "A tool call id names one call of its message.",
	Next:     "the message's turns: an answer to one card may be shown at the other",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'its id ' || c.tool_call_id || ' is also that of ' || d.call_id
	  from {calls} c
	  join turns t using (tenant_id, turn_id)
	  join turns s on s.tenant_id = t.tenant_id and s.topic_id = t.topic_id and s.message_id = t.message_id
	  join calls d on d.tenant_id = s.tenant_id and d.turn_id = s.turn_id and d.tool_call_id = c.tool_call_id
	 where d.call_id <> c.call_id`,
}, {
	Number: "I9", Name: "rows-of-one-tenant",
	Sentence: "A row and what it belongs to are of one tenant, one topic and one turn.",
	Next:     "who else can write to this database: no transaction of Countersign takes a row to another tenant",
	sql: `
	select t.tenant_id, t.topic_id, t.turn_id::text, '', 'its message ' || t.message_id || ' or the turn that it continues is not of its topic'
	  from {turns} t
	  left join messages m using (tenant_id, topic_id, message_id)
	  left join turns k on k.tenant_id = t.tenant_id and k.turn_id = t.continues
	 where m.message_id is null or t.continues is not null and k.topic_id is distinct from t.topic_id
	 union all
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'it is not where its turn is'
	  from {calls} c
	  left join turns t using (tenant_id, turn_id)
	 where (c.topic_id, c.message_id) is distinct from (t.topic_id, t.message_id)
	 union all
	select a.tenant_id, a.topic_id, a.turn_id::text, a.call_id::text, 'approval ' || a.approval_id || ' is not where its call is'
	  from {approvals} a
	  left join calls c using (tenant_id, call_id)
	 where (a.topic_id, a.turn_id) is distinct from (c.topic_id, c.turn_id)
	 union all
	select d.tenant_id, '', '', d.call_id::text, 'decision ' || d.decision_id || ' is about another call than its approval'
	  from {decisions} d
	  left join approvals a using (tenant_id, approval_id)
	 where d.call_id is distinct from a.call_id
	 union all
	select k.tenant_id, k.topic_id, k.turn_id::text, '', 'its continuation is not where its turn is'
	  from {continuations} k
	  left join turns t using (tenant_id, turn_id)
	 where k.topic_id is distinct from t.topic_id
	 union all
	select a.tenant_id, '', '', a.call_id::text, 'attempt ' || a.fence || ' has no call in its tenant'
	  from {attempts} a
	 where not exists (select from calls c where c.tenant_id = a.tenant_id and c.call_id = a.call_id)`,
}}
