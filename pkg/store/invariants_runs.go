package store

// What runs was approved, runs as often as its effect allows, and leaves a
// trace (I4, I5, I6).
var invariantsOfRuns = []Invariant{{
	Number: "I4", Name: "attempts-on-the-call",
	Sentence: "A call's fence is the number of its attempts, of which only the last may be open, exactly while it is started.",
	Next:     "the call's attempts, and the logs of the workers that they name",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       format('its run is %s with fence %s; it has %s attempts, the last %s, %s open', quote_literal(c.run), c.fence,
	              coalesce(a.n, 0), coalesce(a.last, 0), coalesce(a.open, 0))
	  from {calls} c
	  left join (select tenant_id, call_id, count(*) as n, max(fence) as last, count(*) filter (where finished_at is null) as open
	               from {attempts} a group by tenant_id, call_id) a using (tenant_id, call_id)
	 where c.fence <> coalesce(a.n, 0) or c.fence <> coalesce(a.last, 0) or coalesce(a.open, 0) <> (c.run = 'started')::int`,
}, {
	Number: "I4", Name: "bounded-attempts",
	Sentence: "No call has more attempts than its tool allows.",
	Next:     "the call's attempts: what made it run again?",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, c.fence || ' attempts of ' || c.max_attempts
	  from {calls} c
	 where c.fence > c.max_attempts`,
}, {
	Number: "I4", Name: "claim-of-its-fence",
	Sentence: "The claim that a call names is the one of its last attempt, and whoever has started has one.",
	Next:     "the call's last attempt: two workers may think that they own it",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'fence ' || c.fence || ' of ' || c.worker || ' is not the attempt''s claim'
	  from {calls} c
	  left join {attempts} a using (tenant_id, call_id, fence)
	 where c.claim_token <> '' and a.claim_token is distinct from c.claim_token
	    or c.run = 'started' and c.claim_token = ''`,
}, {
	Number: "I4", Name: "unsafe-once",
	Sentence: "An unsafe call has another attempt only after ones that sent nothing.",
	Next:     "the tool's own records: the effect may have happened twice",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       'attempt ' || a.fence || ' of ' || c.fence || ' ended ' || quote_literal(a.outcome)
	  from {calls} c
	  join {attempts} a using (tenant_id, call_id)
	 where c.effect = 'unsafe' and a.fence < c.fence and a.outcome <> 'nothing-sent'`,
}, {
	Number: "I4", Name: "keyed-within-retention",
	Sentence: "A keyed call is tried again only while its tool remembers the key.",
	Next:     "the tool's own records: it may have taken the same key for a new one",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       'attempt ' || a.fence || ' started ' || (a.started_at - c.first_started_at) || ' after the first'
	  from {calls} c
	  join {attempts} a using (tenant_id, call_id)
	 where c.effect = 'keyed' and c.uncertain and a.fence > 1
	   and a.started_at > c.first_started_at + c.key_retention_ms * interval '1 millisecond'`,
}, {
	Number: "I4", Name: "unknown-after-a-start",
	Sentence: "An outcome is unknown only after an attempt that started and gave no result, and the call says so.",
	Next:     "the call's attempts; a person may be asked about something that never ran",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       'its last attempt ended ' || coalesce(quote_literal(a.outcome), 'never') || ', its outcome is ' || quote_literal(c.outcome)
	  from {calls} c
	  left join {attempts} a using (tenant_id, call_id, fence)
	 where c.run = 'outcome-unknown'
	   and (a.outcome is null or a.outcome not in ('unknown', 'lease-lost', 'nothing-sent') or a.finished_at is null
	        or c.outcome <> 'unknown' or c.result_digest is not null)`,
}, {
	Number: "I5", Name: "run-was-approved",
	Sentence: "A run exists only where a person approved the call or a policy allowed it.",
	Next:     "the call's approval and its audit; stop the tenant with countersign halt until it is clear how it came here",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text,
	       'its run is ' || quote_literal(c.run) || ', its approval ' || coalesce(a.state, 'not there')
	  from {calls} c
	  left join {approvals} a using (tenant_id, turn_id, call_id)
	 where (c.run <> '' or c.fence > 0) and coalesce(a.state = 'approved', c.allowed_by <> '') is not true`,
}, {
	Number: "I5", Name: "digest-of-what-runs",
	Sentence: "A call's digest is that of its tenant, id, tool, definition and input as they are stored.",
	Next:     "the call's input and definition: one was changed after it was shown",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'its digest is not that of its input and definition'
	  from {calls} c
	 where c.digest <> sha256(
	       ` + field(`'countersign-call-v1'::bytea`) + ` || ` + field(`convert_to(c.tenant_id, 'UTF8')`) + `
	    || ` + field(`convert_to(c.call_id::text, 'UTF8')`) + ` || ` + field(`convert_to(c.tool, 'UTF8')`) + `
	    || ` + field(`coalesce(c.definition, '')`) + ` || ` + field(`c.input`) + `)`,
}, {
	Number: "I5", Name: "definition-is-kept",
	Sentence: "The definition that a call was approved with is stored, as its hash says.",
	Next:     "tool_definitions: its rows are never changed or deleted",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'the definition of ' || c.tool || ' is not the one of its hash'
	  from {calls} c
	  left join tool_definitions d on d.tenant_id = c.tenant_id and d.hash = c.definition
	 where c.definition is not null and (d.hash is null or d.hash <> sha256(d.definition))`,
}, {
	Number: "I5", Name: "approved-before-it-started",
	Sentence: "What says that a call may run was committed before its first attempt.",
	Next:     "the call's audit, in its order",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, u.action || ' is audited behind ' || s.action
	  from {audit} s
	  join {calls} c using (tenant_id, call_id)
	  join {audit} u using (tenant_id, call_id)
	 where s.action = 'attempt.started' and u.action in ('call.allowed', 'approval.requested', 'approval.approved')
	   and u.audit_id > s.audit_id`,
}, {
	Number: "I6", Name: "denied-has-no-effect",
	Sentence: "A call that was denied, expired, lapsed, cancelled or superseded has no run and no attempt.",
	Next:     "the tool's own records, and the worker that the attempt names",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'it is ' || c.state || ' and was tried'
	  from {calls} c
	 where c.state = 'output-denied'
	   and (c.run <> '' or c.fence > 0 or exists (select from attempts a where a.tenant_id = c.tenant_id and a.call_id = c.call_id))`,
}, {
	Number: "I6", Name: "stopped-sent-nothing",
	Sentence: "A call that was stopped before it ran had no attempt that may have had an effect.",
	Next:     "the tool's own records: the model was told that it did not run",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'it was stopped, its attempt ' || a.fence || ' ended ' || quote_literal(a.outcome)
	  from {calls} c
	  join {attempts} a using (tenant_id, call_id)
	 where c.run = 'stopped' and c.effect <> 'read' and a.outcome <> 'nothing-sent'`,
}, {
	Number: "I6", Name: "ended-turn-starts-nothing",
	Sentence: "In an ended turn nothing waits: no open card, nothing queued.",
	Next:     "the turn's calls: one may still be claimed though its turn was cancelled",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'the turn is ' || t.state || ', the call ' || c.state || ' ' || c.run
	  from {turns} t
	  join {calls} c using (tenant_id, turn_id)
	 where t.ended <> '' and c.state not in ` + settledStates + ` and c.run not in ('started', 'outcome-unknown')`,
}, {
	Number: "I6", Name: "run-fits-part",
	Sentence: "A call's run and its part state fit each other.",
	Next:     "the call's audit and attempts",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'its part is ' || c.state || ', its run ' || quote_literal(c.run)
	  from {calls} c
	 where (c.state = 'output-available') <> (c.run = 'succeeded')
	    or c.run in ('queued', 'started', 'outcome-unknown') and c.state not in ('input-available', 'approval-responded')`,
}, {
	Number: "I8", Name: "approved-is-queued",
	Sentence: "What may run is queued in the commit after which it may.",
	Next:     "the turn's approvals: nothing looks for an approved call that was not queued",
	sql: `
	select c.tenant_id, c.topic_id, c.turn_id::text, c.call_id::text, 'it is ' || c.state || ' and was not queued'
	  from {turns} t
	  join {calls} c using (tenant_id, turn_id)
	 where c.run = '' and t.ended = ''
	   and (c.state = 'input-available'
	        or c.state = 'approval-responded' and (t.execution = 'eager' or not t.streaming and t.open_approvals = 0))`,
}}

// field is one field of a digest, as model.Digest takes it: with its length
// before it.
func field(bytes string) string { return `int8send(length(` + bytes + `)) || ` + bytes }
