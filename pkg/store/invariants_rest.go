package store

// What must hold once nothing is under way: nobody waits for what nobody is
// going to do (I8). These ask the small indexes that the sweeps use, so they
// are never windowed.
var invariantsAtRest = []Invariant{{
	Number: "I8", Name: "queued-is-claimed", AtRest: true,
	Sentence: "No call waits for a worker, and every caller that runs its own was told.",
	Next:     "whether workers run and reach the database (/readyz), and the call's server and tool",
	sql: `
	select tenant_id, topic_id, turn_id::text, call_id::text,
	       format('%s is queued since %s for a %s, hinted at %s times', tool, queued_at, executor, published)
	  from calls
	 where run = 'queued' and not polled and (executor = 'worker' or published_at is null)
	   and greatest(queued_at, not_before) <= now() - @late::interval`,
}, {
	Number: "I8", Name: "leases-hold", AtRest: true,
	Sentence: "No run is owned by somebody whose lease has run out.",
	Next:     "whether a continuer runs: its sweep takes lost leases back",
	sql: `
	select tenant_id, topic_id, turn_id::text, call_id::text, 'the lease of ' || worker || ' ran out at ' || lease_until
	  from calls
	 where run = 'started' and lease_until <= now() - @late::interval`,
}, {
	Number: "I8", Name: "deadlines-are-kept", AtRest: true,
	Sentence: "No card is open past its deadline, no hold and no live turn past its lease.",
	Next:     "whether a continuer runs: its sweep closes what is over",
	sql: `
	select tenant_id, topic_id, turn_id::text, call_id::text, 'approval ' || approval_id || ' expired at ' || expires_at
	  from approvals
	 where state = 'requested' and expires_at <= now() - @late::interval
	 union all
	select tenant_id, topic_id, turn_id::text, '', 'its hold lapsed at ' || hold_until
	  from turns
	 where hold_until <= now() - @late::interval
	 union all
	select tenant_id, topic_id, turn_id::text, '', 'its stream''s lease ran out at ' || live_until
	  from turns
	 where live_until <= now() - @late::interval`,
}, {
	Number: "I8", Name: "queued-replies-have-their-turn", AtRest: true,
	Sentence: "No reply is queued behind turns that are over.",
	Next:     "whether a continuer runs: its sweep lets the reply be given",
	sql: `
	select q.tenant_id, q.topic_id, q.turn_id::text, '', 'its reply is queued, and no turn of the topic is open before it'
	  from turns q
	  join topics p using (tenant_id, topic_id)
	 where q.queued and p.updated_at <= now() - @late::interval and ` + itsTurnHasCome,
}, {
	Number: "I8", Name: "signals-are-sent", AtRest: true,
	Sentence: "No topic's last change is still to be signalled.",
	Next:     "whether NATS answers, and whether a continuer runs",
	sql: `
	select tenant_id, topic_id, '', '', 'version ' || version || ' of ' || updated_at || ' was not signalled'
	  from topics
	 where owed and updated_at <= now() - @late::interval`,
}, {
	Number: "I8", Name: "continuations-are-delivered", AtRest: true,
	Sentence: "No continuation is past the time at which it is due.",
	Next:     "countersign redrive --list and the continuation's last error; whether a continuer runs",
	sql: `
	select tenant_id, topic_id, turn_id::text, '',
	       format('its continuation is %s and was due at %s, after %s deliveries %s', state, next_at, deliveries, last_error)
	  from continuations
	 where state in ('ready', 'dispatched') and next_at <= now() - @late::interval`,
}}
