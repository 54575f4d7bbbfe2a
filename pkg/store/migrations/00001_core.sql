-- +goose Up
-- Every table carries tenant_id first in its key and in every foreign key, so
-- that no row can point across tenants (I9). States are text with a CHECK;
-- their edges are the rows of legal_edges, enforced by the tables' guards.

-- What one value may be is the check of a domain: that is compiled once per
-- connection, the check of a table anew by each statement that writes to it,
-- which took a fifth of a transaction's time.
create domain tally as int check (value >= 0);
create domain topic_end as text check (value in ('', 'done', 'aborted', 'error'));
create domain while_open as text check (value in ('supersede', 'queue', 'block'));
create domain turn_end as text check (value in ('', 'aborted', 'error'));
create domain turn_state as text check (value in ('aborted', 'error', 'streaming', 'awaiting-approval', 'executing',
                                                  'needs-attention', 'continuing', 'done'));
create domain execution as text check (value in ('when-decided', 'eager'));
create domain lapse_answer as text check (value in ('deny', 'park'));
create domain sink_type as text check (value in ('none', 'webhook', 'jetstream', 'model'));
create domain message_role as text check (value in ('system', 'user', 'assistant'));
create domain call_state as text check (value in ('input-streaming', 'input-available', 'approval-requested', 'approval-responded',
                                                  'output-available', 'output-error', 'output-denied'));
create domain run_state as text check (value in ('', 'queued', 'started', 'succeeded', 'failed', 'stopped', 'outcome-unknown', 'closed'));
create domain resolution as text check (value in ('', 'happened', 'did-not-happen', 'closed'));
create domain effect as text check (value in ('read', 'idempotent', 'keyed', 'unsafe'));
create domain executor as text check (value in ('worker', 'caller'));
create domain approval_state as text check (value in ('requested', 'approved', 'denied', 'expired', 'lapsed', 'cancelled', 'superseded'));
create domain continuation_state as text check (value in ('ready', 'dispatched', 'accepted', 'failed', 'superseded'));

create table tenants (
    tenant_id   text primary key,
    halted      boolean not null default false,   -- the kill switch: nothing is claimed while it is on
    created_at  timestamptz not null default clock_timestamp()
);

create table signing_secrets (
    tenant_id   text not null references tenants,
    secret      text not null,                     -- whsec_…
    created_at  timestamptz not null default clock_timestamp(),
    retired_at  timestamptz,                       -- still signs until then
    primary key (tenant_id, secret)
);

create table keys (
    tenant_id   text not null references tenants,
    name        text not null,
    hash        bytea not null,                    -- SHA-256 of the key; the key itself is shown once and never stored
    roles       text[] not null,
    acts_for    boolean not null default false,    -- may name a person it acts for
    tokens_decide boolean not null default false,  -- the tokens that it mints may decide
    token_secret bytea not null,                   -- signs its tokens; goes with the key, and they with it
    sink        jsonb,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, name),
    constraint keys_hash_unique unique (hash)
);

create table tool_definitions (
    tenant_id   text not null references tenants,
    hash        bytea not null,
    definition  bytea not null,                    -- the exact bytes that the hash is of
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, hash)
);

create table mcp_servers (
    tenant_id           text not null references tenants,
    name                text not null,
    config              jsonb not null,
    secrets             jsonb not null default '{}',
    revision            bigint not null default 1,
    imported_revision   bigint not null default 0,
    import_error        text not null default '',
    imported_at         timestamptz,
    updated_at          timestamptz not null default clock_timestamp(),
    primary key (tenant_id, name)
);

create table tools (
    tenant_id   text not null,
    name        text not null,
    server      text,
    hash        bytea not null,                    -- the definition as it is now
    secrets     jsonb not null default '{}',
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, name),
    foreign key (tenant_id, hash) references tool_definitions,
    foreign key (tenant_id, server) references mcp_servers (tenant_id, name) on delete cascade
);

create table policies (
    tenant_id   text not null references tenants,
    name        text not null,
    rule        jsonb not null,
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, name)
);

create table topics (
    tenant_id   text not null references tenants,
    topic_id    text not null,
    version     bigint not null default 0,
    owed        boolean not null default true,     -- a signal: no continuer has heard of this version yet
    streaming   tally not null default 0,
    awaiting    tally not null default 0,
    attention   tally not null default 0,
    executing   tally not null default 0,
    continuing  tally not null default 0,
    failed      tally not null default 0,
    last        topic_end not null default '',
    messages    bigint not null default 0,
    unknowns    int not null default 0,            -- calls whose outcome is, or once was, unknown
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, topic_id)
) with (fillfactor = 70);
create index topics_owed on topics (tenant_id, topic_id) where owed;

-- What is said of a topic once, for every request that does not say it. The
-- topic need not exist yet.
create table topic_settings (
    tenant_id   text not null references tenants,
    topic_id    text not null,
    while_open  while_open not null,
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, topic_id)
);

create table messages (
    tenant_id   text not null,
    topic_id    text not null,
    message_id  text not null,
    position    bigint not null,
    role        message_role not null,
    parts       bytea,                             -- of user and system messages; an assistant's are in its turns
    metadata    bytea,
    content     bytea not null,                    -- SHA-256 over what was sent, to know a repeated message
    dropped     boolean not null default false,    -- no part of the conversation any more: it was begun anew before it
    former      bytea[] not null default '{}',     -- its parts before each time that it was edited
    version     bigint not null,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, topic_id, message_id),
    constraint messages_position_unique unique (tenant_id, topic_id, position),
    foreign key (tenant_id, topic_id) references topics
);

create table turns (
    tenant_id       text not null,
    turn_id         uuid not null,
    topic_id        text not null,
    message_id      text not null,
    step            int not null,
    continues       uuid,
    state           turn_state not null,
    open            boolean not null generated always as (state not in ('aborted', 'error', 'done')) stored,
    ended           turn_end not null default '',
    end_reason      text not null default '',
    discarded       boolean not null default false,
    streaming       boolean not null default false,
    reply           boolean not null default false, -- it asks for an answer to its message, a person's
    queued          boolean not null default false, -- a reply that waits until the turns before it are over
    open_approvals  tally not null default 0,
    open_calls      tally not null default 0,
    unknown_calls   tally not null default 0,
    execution       execution not null,
    requested_by    text not null default '',
    sink_type       sink_type not null,
    sink_target     text not null default '',      -- the URL, the name, or how the model is asked
    accept_within_ms bigint not null,
    hold_lease_ms   bigint,
    hold_until      timestamptz,
    on_lapse        lapse_answer,
    live_fence      bigint not null default 0,
    live_token      text not null default '',
    live_until      timestamptz,
    parts           bytea not null,                -- a JSON array; null stands where a call's part is
    metadata        bytea,                         -- a JSON array: what its stream said of the message, in order
    content         bytea not null,                -- SHA-256 over the registration
    version         bigint not null,               -- the topic's version at the last change
    traceparent     text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    primary key (tenant_id, turn_id),
    constraint turns_step_unique unique (tenant_id, topic_id, message_id, step),
    foreign key (tenant_id, topic_id, message_id) references messages,
    foreign key (tenant_id, continues) references turns,
    constraint turns_unknown_are_open check (unknown_calls <= open_calls),
    constraint turns_ended_is_closed check (ended = '' or not streaming),
    constraint turns_queued_is_open_reply check (not queued or reply and ended = ''),
    constraint turns_reply_is_no_step check (not reply or continues is null and not streaming and open_calls = 0)
) with (fillfactor = 70);
create unique index turns_identity_unique on turns (tenant_id, topic_id, message_id, continues)
    nulls not distinct where not discarded and not reply;
-- What changes often is in no index, so that most updates of a turn touch
-- none: open changes once in a turn's life, state does each time.
create index turns_open on turns (tenant_id, topic_id) where open;
create index turns_held on turns (hold_until) where hold_until is not null;
create index turns_queued on turns (tenant_id, topic_id) where queued;
create index turns_live on turns (live_until) where live_until is not null;

create table calls (
    tenant_id         text not null,
    call_id           uuid not null,
    turn_id           uuid not null,
    topic_id          text not null,
    message_id        text not null,
    part              int not null,
    tool_call_id      text not null,
    tool              text not null,
    server            text not null default '',
    definition        bytea,
    effect            effect not null,
    executor          executor not null,
    max_attempts      int not null,
    key_retention_ms  bigint not null,
    timeout_ms        bigint not null,
    dynamic           boolean not null default false,
    extra             bytea,                       -- the part's other fields, a JSON object
    state             call_state not null,
    outcome           text not null default '',
    error_text        text not null default '',
    allowed_by        text not null default '',
    input             bytea not null,
    original_input    bytea,                       -- what the model sent, where a person edited it
    digest            bytea not null,
    edited            boolean not null default false,
    output            bytea,
    run               run_state not null default '',
    fence             bigint not null default 0,
    claim_token       text not null default '',
    worker            text not null default '',
    lease_until       timestamptz,
    queued_at         timestamptz,
    not_before        timestamptz,
    first_started_at  timestamptz,
    result_digest     bytea,
    uncertain         boolean not null default false,
    published         int not null default 0,      -- hints sent for this queueing
    published_at      timestamptz,
    polled            boolean not null default false, -- its caller polls; no hint is ever owed
    unknown_at        timestamptz,                 -- when its outcome became unknown, though it may be known by now
    duplicate_of      uuid,                        -- an earlier call of the topic that it may repeat
    resolution        resolution not null default '',
    evidence          text not null default '',
    resolved_by       text not null default '',
    resolved_channel  text not null default '',
    resolved_at       timestamptz,
    created_at        timestamptz not null default clock_timestamp(),
    primary key (tenant_id, call_id),
    -- Unique within the message: register sees to it under the topic's lock.
    constraint calls_tool_call_id_unique unique (tenant_id, turn_id, tool_call_id),
    -- No foreign key on the definition: every call of a tool would lock the same
    -- row. A hash that names nothing is a call that a worker stops.
    foreign key (tenant_id, turn_id) references turns,
    foreign key (tenant_id, duplicate_of) references calls (tenant_id, call_id)
) with (fillfactor = 70);
create index calls_queued on calls (queued_at) where run = 'queued' and not polled;
create index calls_of_callers on calls (queued_at) where run = 'queued' and executor = 'caller';
create index calls_started on calls (lease_until) where run = 'started';
create index calls_unresolved on calls (tenant_id, call_id) where run = 'outcome-unknown';
create index calls_once_unknown on calls (tenant_id, topic_id) where unknown_at is not null;

create table approvals (
    tenant_id     text not null,
    approval_id   uuid not null,
    call_id       uuid not null,
    turn_id       uuid not null,
    topic_id      text not null,
    state         approval_state not null,
    requested_at  timestamptz not null,
    expires_at    timestamptz not null,
    rule          jsonb not null,                  -- who may answer, how many must, under which policies
    reason        text not null default '',
    decided_by    text not null default '',
    decided_at    timestamptz,
    decision_id   text not null default '',
    channel       text not null default '',
    primary key (tenant_id, approval_id),
    constraint approvals_call_unique unique (tenant_id, turn_id, call_id),
    foreign key (tenant_id, call_id) references calls  -- and so its turn
) with (fillfactor = 80);
create index approvals_open on approvals (expires_at) where state = 'requested';

create table decisions (
    tenant_id    text not null,
    decision_id  text not null,
    approval_id  uuid not null,
    call_id      uuid not null,
    approved     boolean not null,
    reason       text not null,
    digest       bytea not null,
    edited       boolean not null,
    decided_by   text not null,
    key_name     text not null,
    channel      text not null,
    decided_at   timestamptz not null,
    content      bytea not null,
    primary key (tenant_id, decision_id),
    foreign key (tenant_id, approval_id) references approvals
);
create index decisions_by_approval on decisions (tenant_id, approval_id);

create table attempts (
    tenant_id    text not null,
    call_id      uuid not null,
    fence        bigint not null,
    claim_token  text not null,
    worker       text not null,
    started_at   timestamptz not null,
    finished_at  timestamptz,
    outcome      text not null default '',
    detail       text not null default '',
    primary key (tenant_id, call_id, fence),
    foreign key (tenant_id, call_id) references calls
);

create table continuations (
    tenant_id     text not null,
    turn_id       uuid not null,                   -- one per turn, so the turn names it (I2)
    topic_id      text not null,
    state         continuation_state not null,
    generation    int not null default 0,
    ready_at      timestamptz not null,
    accepted_by   uuid,
    deliveries    int not null default 0,
    next_at       timestamptz not null,            -- not delivered earlier; infinity while it is held or polled
    delivered_at  timestamptz,
    last_error    text not null default '',
    created_at    timestamptz not null default clock_timestamp(),
    primary key (tenant_id, turn_id),
    foreign key (tenant_id, turn_id) references turns,
    foreign key (tenant_id, accepted_by) references turns (tenant_id, turn_id) deferrable initially deferred
) with (fillfactor = 70);
create index continuations_due on continuations (next_at) where state in ('ready', 'dispatched');
create index continuations_open on continuations (tenant_id, turn_id) where state in ('ready', 'dispatched', 'failed');

create table audit (
    tenant_id    text not null,
    audit_id     bigint generated always as identity,
    at           timestamptz not null,
    actor        text not null,
    action       text not null,
    channel      text not null default '',
    topic_id     text not null default '',
    turn_id      uuid,
    call_id      uuid,
    approval_id  uuid,
    detail       text not null default '',
    digest       bytea,
    xid          bigint not null default pg_current_xact_id()::text::bigint, -- of the transaction that wrote it
    primary key (tenant_id, audit_id)
);
create index audit_by_xid on audit (xid);              -- what came last, of all tenants

-- The chain over a tenant's audit: a link per row, in the order in which one
-- chainer came to them, which is not that of audit_id (I10).
create table audit_chain (
    tenant_id    text not null,
    seq          bigint not null,                  -- from 1, without gaps
    audit_id     bigint not null,
    prev         bytea not null,                   -- the hash of the link before
    hash         bytea not null,                   -- SHA-256 over prev and the row
    linked_at    timestamptz not null default clock_timestamp(),
    primary key (tenant_id, seq),
    constraint audit_chain_row_unique unique (tenant_id, audit_id)
);

-- Where the chainer is: all rows of transactions before the horizon are
-- linked. Whoever holds the one row's lock is the chainer.
create table audit_chainer (
    only_one     boolean primary key default true check (only_one),
    horizon      bigint not null default 0
);
insert into audit_chainer default values;

-- To the planner all rows of these tables are of one tenant. A plan is made once
-- for all tenants: by the average one, which may have three rows, it would read
-- all that a tenant has and drop what is not asked for, and for the tenant that
-- has a million of them, too. Counting on the largest, it goes by the whole key.
alter table topics alter column tenant_id set (n_distinct = 1);
alter table messages alter column tenant_id set (n_distinct = 1);
alter table turns alter column tenant_id set (n_distinct = 1);
alter table calls alter column tenant_id set (n_distinct = 1);
alter table approvals alter column tenant_id set (n_distinct = 1);
alter table decisions alter column tenant_id set (n_distinct = 1);
alter table attempts alter column tenant_id set (n_distinct = 1);
alter table continuations alter column tenant_id set (n_distinct = 1);

-- The one table of legal edges, "from>to" by machine; a run begins as '': not
-- queued yet.
-- +goose StatementBegin
create function legal_edges(machine text) returns text[] language plpgsql immutable parallel safe as $$
begin
    return case machine
        when 'call' then array[
            'input-streaming>input-available', 'input-streaming>output-error',
            'input-available>approval-requested', 'input-available>output-available',
            'input-available>output-error', 'input-available>output-denied',
            'approval-requested>approval-responded', 'approval-requested>output-denied',
            'approval-responded>output-available', 'approval-responded>output-error']
        when 'approval' then array[
            'requested>approved', 'requested>denied', 'requested>expired', 'requested>lapsed',
            'requested>cancelled', 'requested>superseded']
        when 'run' then array[
            '>queued', 'queued>started', 'queued>stopped', 'queued>failed', 'started>succeeded',
            'started>failed', 'started>outcome-unknown', 'started>queued', 'outcome-unknown>succeeded',
            'outcome-unknown>failed', 'outcome-unknown>closed']
        when 'continuation' then array[
            'ready>dispatched', 'ready>accepted', 'ready>failed', 'ready>superseded', 'dispatched>ready',
            'dispatched>accepted', 'dispatched>failed', 'dispatched>superseded', 'failed>ready',
            'failed>accepted', 'failed>superseded', 'accepted>ready', 'accepted>failed']
    end;
end $$;

create function refuse(rule text, why text) returns void language plpgsql as $$
begin
    raise exception '%', why using errcode = 'check_violation', constraint = rule;
end $$;

-- The guards hold the rules of a row in which several columns, or the old row
-- and the new, have a part. They are functions for the reason for which the
-- domains are domains: what they say is read once per connection, the
-- condition of a CHECK or of a trigger by each statement. On insert, old is
-- null and so is what is asked of it.
create function guard_call() returns trigger language plpgsql as $$
begin
    if new.state <> old.state and old.state || '>' || new.state <> all (legal_edges('call')) then
        perform refuse('legal_transition', format('call %s: %s>%s', new.call_id, old.state, new.state));
    end if;
    if new.run <> old.run and old.run || '>' || new.run <> all (legal_edges('run')) then
        perform refuse('legal_transition', format('run of call %s: %s>%s', new.call_id, old.run, new.run));
    end if;
    if new.run = 'started' and (new.lease_until is null or new.claim_token = '') then
        perform refuse('calls_started_has_lease', format('call %s has started without a lease', new.call_id));
    end if;
    if new.run in ('queued', 'started') and new.state in ('output-available', 'output-denied') then
        perform refuse('calls_settled_runs_are_over', format('call %s is settled and yet runs', new.call_id));
    end if;
    if new.state = 'output-denied' and (new.run <> '' or new.fence <> 0) then
        perform refuse('calls_denied_never_ran', format('call %s is denied and yet ran', new.call_id));
    end if;
    if new.resolution <> '' or new.resolved_at is not null or new.resolved_by <> '' or old.resolution <> '' then
        perform guard_resolution(old, new);
    end if;
    return new;
end $$;

-- A person's resolution is complete, is the run's end, and is final.
create function guard_resolution(old calls, new calls) returns void language plpgsql as $$
begin
    if new.resolution = '' or new.resolved_at is null or new.resolved_by = '' then
        perform refuse('calls_resolution_is_complete', format('the resolution of call %s is not complete', new.call_id));
    end if;
    if new.run <> (case new.resolution when 'happened' then 'succeeded' when 'did-not-happen' then 'failed' else 'closed' end) then
        perform refuse('calls_resolution_is_their_end', format('the run of call %s is not as it was resolved', new.call_id));
    end if;
    if old.resolution <> '' and (old.resolution, old.evidence, old.resolved_by, old.resolved_channel, old.resolved_at)
       is distinct from (new.resolution, new.evidence, new.resolved_by, new.resolved_channel, new.resolved_at) then
        perform refuse('resolution_is_final', format('the resolution of call %s is final', new.call_id));
    end if;
end $$;

-- A verdict that is committed never changes, whoever tries (I1). No approval is
-- born approved: whoever may only ask brings no answer along (I5).
create function guard_approval() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' and new.state = 'approved' then
        perform refuse('approvals_are_asked_first', format('approval %s was never asked', new.approval_id));
    end if;
    if new.state <> old.state and old.state || '>' || new.state <> all (legal_edges('approval')) then
        perform refuse('legal_transition', format('approval %s: %s>%s', new.approval_id, old.state, new.state));
    end if;
    if old.state <> 'requested' and (old.reason, old.decided_by, old.decided_at, old.decision_id)
       is distinct from (new.reason, new.decided_by, new.decided_at, new.decision_id) then
        perform refuse('verdict_is_final', format('the verdict of approval %s is final', new.approval_id));
    end if;
    if (new.state = 'requested') <> (new.decided_at is null) then
        perform refuse('approvals_decided_is_complete', format('approval %s is decided at a time, or open', new.approval_id));
    end if;
    if new.state in ('approved', 'denied') and new.decided_by = '' then
        perform refuse('approvals_verdict_has_decider', format('the verdict of approval %s is somebody''s', new.approval_id));
    end if;
    return new;
end $$;

create function guard_continuation() returns trigger language plpgsql as $$
begin
    if new.state <> old.state and old.state || '>' || new.state <> all (legal_edges('continuation')) then
        perform refuse('legal_transition', format('continuation of %s: %s>%s', new.turn_id, old.state, new.state));
    end if;
    if (new.state = 'accepted') <> (new.accepted_by is not null) then
        perform refuse('continuations_accepted_by_one', format('the continuation of %s is accepted by one, or by none', new.turn_id));
    end if;
    return new;
end $$;

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% only grows: % refused', tg_table_name, lower(tg_op)
        using errcode = 'check_violation', constraint = 'append_only';
end $$;
-- +goose StatementEnd

create trigger calls_guard before insert or update on calls for each row execute function guard_call();
create trigger approvals_guard before insert or update on approvals for each row execute function guard_approval();
create trigger continuations_guard before insert or update on continuations for each row execute function guard_continuation();
create trigger decisions_only_grow before update or delete on decisions for each row
    execute function refuse_change();
create trigger audit_only_grows before update or delete on audit for each row
    execute function refuse_change();
create trigger audit_chain_only_grows before update or delete on audit_chain for each row
    execute function refuse_change();

-- +goose Down
drop function guard_resolution;
drop table audit_chainer, audit_chain, audit, continuations, attempts, decisions, approvals, calls, turns, messages, topic_settings, topics,
    policies, tools, mcp_servers, tool_definitions, keys, signing_secrets, tenants;
drop function legal_edges, refuse, guard_call, guard_approval, guard_continuation, refuse_change;
drop domain tally, topic_end, while_open, turn_end, turn_state, execution, lapse_answer, sink_type, message_role, call_state, run_state,
    resolution, effect, executor, approval_state, continuation_state;
