package store

// Turns continue once, and the counters by which they do are right (I2).
var invariantsOfTurns = []Invariant{{
	Number: "I2", Name: "turn-counters",
	Sentence: "A turn's counters of open approvals, open calls and unknown calls are what its calls give.",
	Next:     "the turn's calls: whoever brings a counter to zero makes the continuation, so a wrong one strands the turn",
	sql: `
	select t.tenant_id, t.topic_id, t.turn_id::text, '',
	       format('%s approvals, %s calls, %s unknown are counted; there are %s, %s, %s', t.open_approvals, t.open_calls,
	              t.unknown_calls, coalesce(c.approvals, 0), coalesce(c.open, 0), coalesce(c.unknown, 0))
	  from {turns} t
	  left join (select tenant_id, turn_id, count(*) filter (where state = 'approval-requested') as approvals,
	                    count(*) filter (where state not in ` + settledStates + `) as open,
	                    count(*) filter (where state not in ` + settledStates + ` and run = 'outcome-unknown') as unknown
	               from {calls} c group by tenant_id, turn_id) c using (tenant_id, turn_id)
	 where (t.open_approvals, t.open_calls, t.unknown_calls)
	       <> (coalesce(c.approvals, 0), coalesce(c.open, 0), coalesce(c.unknown, 0))`,
}, {
	Number: "I2", Name: "turn-state",
	Sentence: "A turn's state is the one that follows from its counters and its continuation.",
	Next:     "the turn's row; the state is derived, so something else than Countersign wrote one of its columns",
	sql: `
	select t.tenant_id, t.topic_id, t.turn_id::text, '', 'it is ' || t.state || ' and should be ' || t.derived
	  from (select t.*, case when t.ended <> '' then t.ended
	                         when t.streaming then 'streaming'
	                         when t.open_approvals > 0 then 'awaiting-approval'
	                         when t.open_calls > t.unknown_calls then 'executing'
	                         when t.unknown_calls > 0 then 'needs-attention'
	                         when k.state <> 'accepted' then 'continuing'
	                         else 'done' end as derived
	          from {turns} t
	          left join {continuations} k using (tenant_id, turn_id)) t
	 where t.state <> t.derived
	    or t.streaming <> (t.live_until is not null)`,
}, {
	Number: "I2", Name: "one-continuation",
	Sentence: "A turn has a continuation exactly if it has calls or asks for a reply, is not ended, does not stream, and every call of it is settled.",
	Next:     "the turn's calls and its audit: without its continuation the conversation never goes on",
	sql: `
	select t.tenant_id, t.topic_id, t.turn_id::text, '',
	       'it is ' || t.state || ', its continuation ' || coalesce(k.state, 'missing')
	  from {turns} t
	  left join {continuations} k using (tenant_id, turn_id)
	 where (k.turn_id is not null and k.state <> 'superseded')
	       <> (t.ended = '' and not t.streaming and t.open_calls = 0
	           and (t.reply or exists (select from calls c where c.tenant_id = t.tenant_id and c.turn_id = t.turn_id)))
	    or k.state = 'superseded' and t.ended = ''`,
}, {
	Number: "I2", Name: "one-next-turn",
	Sentence: "A continuation is accepted by exactly the turn that goes on from it.",
	Next:     "both turns: which of them did the backend complete?",
	sql: `
	select t.tenant_id, t.topic_id, t.turn_id::text, '',
	       'it continues ' || k.turn_id || ', which was accepted by ' || coalesce(k.accepted_by::text, 'nobody')
	  from {turns} t
	  join continuations k on k.tenant_id = t.tenant_id and k.turn_id = t.continues
	 where not t.discarded and k.accepted_by is distinct from t.turn_id
	 union all
	select k.tenant_id, k.topic_id, k.turn_id::text, '',
	       'its continuation was accepted by ' || k.accepted_by || ', which does not continue it'
	  from {continuations} k
	  left join turns t on t.tenant_id = k.tenant_id and t.turn_id = k.accepted_by
	 where k.state = 'accepted' and (t.continues is distinct from k.turn_id or t.discarded or t.topic_id <> k.topic_id)`,
}, {
	Number: "I8", Name: "topic-counters",
	Sentence: "A topic's counters and its version are what its turns give, so that its status is true.",
	Next:     "the topic's open turns; people are shown the status that follows from these counters",
	sql: `
	select p.tenant_id, p.topic_id, '', '',
	       format('its counters are (%s), its open turns give (%s); its version is %s, that of a turn %s',
	              concat_ws(',', p.streaming, p.awaiting, p.attention, p.executing, p.continuing, p.failed),
	              concat_ws(',', t.streaming, t.awaiting, t.attention, t.executing, t.continuing, t.failed), p.version, t.version)
	  from {topics} p
	 cross join lateral (
	       select count(*) filter (where t.state = 'streaming') as streaming,
	              count(*) filter (where t.state = 'awaiting-approval') as awaiting,
	              count(*) filter (where t.state = 'needs-attention') as attention,
	              count(*) filter (where t.state = 'executing') as executing,
	              count(*) filter (where t.state = 'continuing' and k.state <> 'failed') as continuing,
	              count(*) filter (where t.state = 'continuing' and k.state = 'failed') as failed,
	              max(t.version) as version
	         from turns t
	        cross join lateral (select (select state from continuations k where k.tenant_id = t.tenant_id and k.turn_id = t.turn_id)) k (state)
	        where t.tenant_id = p.tenant_id and t.topic_id = p.topic_id and t.open) t
	 where (p.streaming, p.awaiting, p.attention, p.executing, p.continuing, p.failed)
	       <> (t.streaming, t.awaiting, t.attention, t.executing, t.continuing, t.failed)
	    or t.version > p.version`,
}, {
	Number: "I8", Name: "messages-in-order",
	Sentence: "The messages of a topic are numbered without a gap, and the topic knows the last number.",
	Next:     "the topic's messages: one was deleted, or one will take a place that is taken",
	sql: `
	select m.tenant_id, m.topic_id, '', '', 'message ' || m.message_id || ' is number ' || m.position || ' of ' || p.messages || ' in the topic'
	  from {messages} m
	  join topics p using (tenant_id, topic_id)
	 where m.position > p.messages
	    or m.position > 1 and not exists (select from messages b
	          where b.tenant_id = m.tenant_id and b.topic_id = m.topic_id and b.position = m.position - 1)
	 union all
	select p.tenant_id, p.topic_id, '', '', 'it counts ' || p.messages || ' messages, the last of which is not there'
	  from {topics} p
	 where p.messages > 0 and not exists (select from messages m
	          where m.tenant_id = p.tenant_id and m.topic_id = p.topic_id and m.position = p.messages)`,
}}
