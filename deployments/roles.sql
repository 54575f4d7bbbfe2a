-- The database roles: one per service, each with what it needs and no more.
-- A service that is broken into cannot do another one's part: a worker cannot
-- decide or resolve, the continuer cannot make keys, and none can rewrite the audit.
--
-- Run it with psql as the owner of the schema after every migration; running
-- it again changes nothing:
--
--   API_PASSWORD=… CONTINUER_PASSWORD=… WORKER_PASSWORD=… psql "$URL" -f roles.sql
--
-- The owner migrates and is used by no service.
\set ON_ERROR_STOP on
\set QUIET on
\getenv api_password API_PASSWORD
\getenv continuer_password CONTINUER_PASSWORD
\getenv worker_password WORKER_PASSWORD

select format('create role %I login', name)
  from unnest(array['countersign_api', 'countersign_continuer', 'countersign_worker']) as name
 where not exists (select from pg_roles where rolname = name)
\gexec

-- What of a call its run and its hints change, and no more: a person's
-- resolution is the api's to write.
\set run_columns 'state, outcome, error_text, digest, edited, run, fence, claim_token, worker, lease_until, queued_at, not_before, first_started_at, result_digest, uncertain, output, published, published_at, unknown_at'

begin;

alter role countersign_api password :'api_password';
alter role countersign_continuer password :'continuer_password';
alter role countersign_worker password :'worker_password';

-- What was granted before may be more than what follows.
revoke all on all tables in schema public from public, countersign_api, countersign_continuer, countersign_worker;
revoke create on schema public from public;

-- All of them read the rows of a conversation and how it may move. Locking a
-- row takes the right to update its table.
grant select on
    tenants, tool_definitions, mcp_servers, tools, policies,
    topics, messages, turns, calls, approvals, decisions, attempts, continuations, audit, audit_chain, audit_chainer
 to countersign_api, countersign_continuer, countersign_worker;

-- The audit and the decisions only grow, whoever writes.
grant insert on audit to countersign_api, countersign_continuer, countersign_worker;

-- The api registers, decides, and configures.
grant select, insert on signing_secrets, keys to countersign_api;
grant update on signing_secrets, keys to countersign_api;
grant delete on keys, tools, mcp_servers, policies to countersign_api;
grant insert, update on
    tenants, tools, mcp_servers, policies, topics, messages, turns, calls, approvals, attempts, continuations
 to countersign_api;
grant insert on tool_definitions, decisions to countersign_api;
grant select, insert, update on topic_settings to countersign_api;
-- A topic that was made for a turn that is then refused goes again; one that
-- has a message cannot, by its foreign key.
grant delete on topics to countersign_api;

-- The continuer moves on what is due and closes what is over: it dispatches,
-- expires, lapses, and takes lost leases back. It signs webhooks. It alone
-- links the audit.
grant select on signing_secrets to countersign_continuer;
grant insert on continuations to countersign_continuer;
grant update on topics, messages, turns, approvals, attempts, continuations to countersign_continuer;
grant update (:run_columns) on calls to countersign_continuer;
grant insert on audit_chain to countersign_continuer;
grant update on audit_chainer to countersign_continuer;

-- The worker claims and finishes, and imports the tools of MCP servers. Its
-- model loop registers turns, as a chat backend does through the api: it asks,
-- and can answer nothing.
grant insert on attempts, continuations to countersign_worker;
grant update on topics, turns, attempts, continuations to countersign_worker;
grant update (:run_columns) on calls to countersign_worker;
grant insert on topics, messages, turns, calls, approvals to countersign_worker;
grant update on messages to countersign_worker;
grant update (part) on calls to countersign_worker;
grant insert on tool_definitions to countersign_worker;
grant insert, update, delete on tools to countersign_worker;
grant update on mcp_servers to countersign_worker;

commit;
