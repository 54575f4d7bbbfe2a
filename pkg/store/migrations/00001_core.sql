-- +goose Up
-- Every table carries tenant_id first in its key and in every foreign key, so
-- that no row can point across tenants (I9). States are text with a CHECK;
-- their edges are the rows of transitions, enforced by a trigger.

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
    streaming   int not null default 0 check (streaming >= 0),
    awaiting    int not null default 0 check (awaiting >= 0),
    attention   int not null default 0 check (attention >= 0),
    executing   int not null default 0 check (executing >= 0),
    continuing  int not null default 0 check (continuing >= 0),
    failed      int not null default 0 check (failed >= 0),
    last        text not null default '' check (last in ('', 'done', 'aborted', 'error')),
    messages    bigint not null default 0,
    unknowns    int not null default 0,            -- calls whose outcome is, or once was, unknown
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, topic_id)
) with (fillfactor = 70);
create index topics_owed on topics (tenant_id, topic_id) where owed;

create table messages (
    tenant_id   text not null,
    topic_id    text not null,
    message_id  text not null,
    position    bigint not null,
    role        text not null check (role in ('system', 'user', 'assistant')),
    parts       bytea,                             -- of user and system messages; an assistant's are in its turns
    metadata    bytea,
    content     bytea not null,                    -- SHA-256 over what was sent, to know a repeated message
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
    state           text not null check (state in ('aborted', 'error', 'streaming', 'awaiting-approval', 'executing',
                                                   'needs-attention', 'continuing', 'done')),
    open            boolean not null generated always as (state not in ('aborted', 'error', 'done')) stored,
    ended           text not null default '' check (ended in ('', 'aborted', 'error')),
    end_reason      text not null default '',
    discarded       boolean not null default false,
    streaming       boolean not null default false,
    open_approvals  int not null default 0 check (open_approvals >= 0),
    open_calls      int not null default 0 check (open_calls >= 0),
    unknown_calls   int not null default 0 check (unknown_calls between 0 and open_calls),
    execution       text not null check (execution in ('when-decided', 'eager')),
    requested_by    text not null default '',
    sink_type       text not null check (sink_type in ('none', 'webhook', 'jetstream')),
    sink_target     text not null default '',      -- the URL, or the name
    accept_within_ms bigint not null,
    hold_lease_ms   bigint,
    hold_until      timestamptz,
    on_lapse        text check (on_lapse in ('deny', 'park')),
    live_fence      bigint not null default 0,
    live_token      text not null default '',
    live_until      timestamptz,
    parts           bytea not null,                -- a JSON array; null stands where a call's part is
    content         bytea not null,                -- SHA-256 over the registration
    version         bigint not null,               -- the topic's version at the last change
    traceparent     text not null default '',
    created_at      timestamptz not null default clock_timestamp(),
    primary key (tenant_id, turn_id),
    constraint turns_step_unique unique (tenant_id, topic_id, message_id, step),
    foreign key (tenant_id, topic_id, message_id) references messages,
    foreign key (tenant_id, continues) references turns,
    constraint turns_ended_is_closed check (ended = '' or not streaming)
) with (fillfactor = 70);
create unique index turns_identity_unique on turns (tenant_id, topic_id, message_id, continues)
    nulls not distinct where not discarded;
-- What changes often is in no index, so that most updates of a turn touch
-- none: open changes once in a turn's life, state does each time.
create index turns_open on turns (tenant_id, topic_id) where open;
create index turns_held on turns (hold_until) where hold_until is not null;
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
    effect            text not null check (effect in ('read', 'idempotent', 'keyed', 'unsafe')),
    executor          text not null check (executor in ('worker', 'caller')),
    max_attempts      int not null,
    key_retention_ms  bigint not null,
    timeout_ms        bigint not null,
    dynamic           boolean not null default false,
    extra             bytea,                       -- the part's other fields, a JSON object
    state             text not null check (state in ('input-streaming', 'input-available', 'approval-requested',
                                                     'approval-responded', 'output-available', 'output-error', 'output-denied')),
    outcome           text not null default '',
    error_text        text not null default '',
    allowed_by        text not null default '',
    input             bytea not null,
    original_input    bytea,                       -- what the model sent, where a person edited it
    digest            bytea not null,
    edited            boolean not null default false,
    output            bytea,
    run               text not null default '' check (run in ('', 'queued', 'started', 'succeeded', 'failed', 'stopped',
                                                              'outcome-unknown', 'closed')),
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
    resolution        text not null default '' check (resolution in ('', 'happened', 'did-not-happen', 'closed')),
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
    constraint calls_started_has_lease check (run <> 'started' or (lease_until is not null and claim_token <> '')),
    constraint calls_settled_runs_are_over check (state not in ('output-available', 'output-denied') or run not in ('queued', 'started')),
    constraint calls_denied_never_ran check (state <> 'output-denied' or (run = '' and fence = 0)),
    foreign key (tenant_id, duplicate_of) references calls (tenant_id, call_id),
    constraint calls_resolution_is_complete check ((resolution = '') = (resolved_at is null)
                                                   and (resolution = '') = (resolved_by = '')),
    constraint calls_resolution_is_their_end check (resolution = '' or run = case resolution
        when 'happened' then 'succeeded' when 'did-not-happen' then 'failed' else 'closed' end)
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
    state         text not null check (state in ('requested', 'approved', 'denied', 'expired', 'lapsed', 'cancelled', 'superseded')),
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
    foreign key (tenant_id, call_id) references calls, -- and so its turn
    constraint approvals_decided_is_complete check ((state = 'requested') = (decided_at is null)),
    constraint approvals_verdict_has_decider check (state not in ('approved', 'denied') or decided_by <> '')
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
    state         text not null check (state in ('ready', 'dispatched', 'accepted', 'failed', 'superseded')),
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
    foreign key (tenant_id, accepted_by) references turns (tenant_id, turn_id) deferrable initially deferred,
    constraint continuations_accepted_by_one check ((state = 'accepted') = (accepted_by is not null))
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

-- The one table of legal edges, "from>to" by machine; a run begins as '': not
-- queued yet. It is a constant within plpgsql, and the guards ask it row by
-- row: a long constant in a trigger's condition, or a function in SQL, would
-- be read anew for each statement, which takes longer than the statement.
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
            'failed>accepted', 'failed>superseded', 'accepted>ready']
    end;
end $$;

create function guard() returns trigger language plpgsql as $$
declare
    edge text;
begin
    if tg_argv[0] = 'run' then
        edge := old.run || '>' || new.run;
    else
        edge := old.state || '>' || new.state;
    end if;
    if edge <> all (legal_edges(tg_argv[0])) then
        raise exception 'illegal transition of %: %', tg_argv[0], edge
            using errcode = 'check_violation', constraint = 'legal_transition';
    end if;
    return new;
end $$;

-- A verdict that is committed never changes, whoever tries (I1).
create function refuse_change_of_verdict() returns trigger language plpgsql as $$
begin
    raise exception 'the verdict of approval % is final', old.approval_id
        using errcode = 'check_violation', constraint = 'verdict_is_final';
end $$;

-- A person's resolution is final as well.
create function refuse_change_of_resolution() returns trigger language plpgsql as $$
begin
    raise exception 'the resolution of call % is final', old.call_id
        using errcode = 'check_violation', constraint = 'resolution_is_final';
end $$;

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% only grows: % refused', tg_table_name, lower(tg_op)
        using errcode = 'check_violation', constraint = 'append_only';
end $$;
-- +goose StatementEnd

create trigger calls_state_edges before update of state on calls for each row
    when (old.state <> new.state) execute function guard('call');
create trigger calls_run_edges before update of run on calls for each row
    when (old.run <> new.run) execute function guard('run');
create trigger approvals_state_edges before update of state on approvals for each row
    when (old.state <> new.state) execute function guard('approval');
create trigger continuations_state_edges before update of state on continuations for each row
    when (old.state <> new.state) execute function guard('continuation');
create trigger approvals_verdict_is_final before update on approvals for each row
    when (old.state <> 'requested' and (old.reason, old.decided_by, old.decided_at, old.decision_id)
          is distinct from (new.reason, new.decided_by, new.decided_at, new.decision_id))
    execute function refuse_change_of_verdict();
create trigger calls_resolution_is_final
    before update of resolution, evidence, resolved_by, resolved_channel, resolved_at on calls for each row
    when (old.resolution <> '') execute function refuse_change_of_resolution();
create trigger decisions_only_grow before update or delete on decisions for each row
    execute function refuse_change();
create trigger audit_only_grows before update or delete on audit for each row
    execute function refuse_change();
create trigger audit_chain_only_grows before update or delete on audit_chain for each row
    execute function refuse_change();

-- +goose Down
drop table audit_chainer, audit_chain, audit, continuations, attempts, decisions, approvals, calls, turns, messages, topics,
    policies, tools, mcp_servers, tool_definitions, keys, signing_secrets, tenants;
drop function legal_edges, guard, refuse_change_of_verdict, refuse_change_of_resolution, refuse_change;
