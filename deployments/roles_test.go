// Package deployments_test keeps what is deployed honest: the database roles,
// the permissions on NATS and the compose file are run or loaded as they
// stand, with the code that they are for.
package deployments_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

func TestMain(m *testing.M) { testservers.Main(m) }

const tenant = model.TenantID("acme")

// One call goes its whole way while each service uses its own role.
func TestEachRoleMayDoItsServicesPart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := grantedDatabase(t)
	api, continuer, worker := storeAs(t, url, "api"), storeAs(t, url, "continuer"), storeAs(t, url, "worker")

	must(t, api.EnsureTenant(ctx, tenant))
	definition := model.ToolDefinition{
		Name: "delete_file", Effect: model.EffectUnsafe, Executor: model.ExecutorWorker, MaxAttempts: 3,
		Timeout: model.Duration(time.Second), HTTP: &model.HTTPTarget{Method: "POST", URL: "http://tool.example"},
	}
	_, err := api.PutTool(ctx, model.Tool{Tenant: tenant, Definition: definition}, "key:ops", "api")
	must(t, err)
	call := approve(t, api, asking(t, definition))

	due, err := continuer.DueAnywhere(ctx, 0, 0, 10)
	must(t, err)
	if len(due.Runs) != 1 {
		t.Fatalf("the continuer sees %d runs due, want 1", len(due.Runs))
	}
	sweep(t, continuer)
	if _, mine, err := continuer.Audit(ctx, store.Scope{Since: time.Now().Add(-time.Minute), AtRest: true, Late: time.Minute}); err != nil || !mine {
		t.Errorf("the continuer's role cannot audit: %v", err)
	}

	claimed := claim(t, worker, call)
	finished, err := worker.Finish(ctx, tenant, call.ID, claimed.Call.Fence, "t",
		model.Result{Kind: model.ResultSucceeded, Output: []byte(`true`)})
	must(t, err)
	if got := finished.Turn.State(); got != model.TurnContinuing {
		t.Errorf("the turn is %s, want %s", got, model.TurnContinuing)
	}
	_, err = continuer.SigningSecrets(ctx, tenant)
	must(t, err)
	_, err = api.Cancel(ctx, tenant, "chat", "", "key:ops", "api")
	must(t, err)
}

// What a worker does beside that: it looks for queued calls, renews leases,
// stops what can never run, and imports the tools of MCP servers.
func TestTheWorkersRoleIsEnoughForAllItDoes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := grantedDatabase(t)
	api, worker := storeAs(t, url, "api"), storeAs(t, url, "worker")
	must(t, api.EnsureTenant(ctx, tenant))
	definition := model.ToolDefinition{
		Name: "delete_file", Effect: model.EffectUnsafe, Executor: model.ExecutorWorker, MaxAttempts: 3,
		Timeout: model.Duration(time.Second), HTTP: &model.HTTPTarget{Method: "POST", URL: "http://tool.example"},
	}
	tool := model.Tool{Tenant: tenant, Definition: definition}
	_, err := api.PutTool(ctx, tool, "key:ops", "api")
	must(t, err)
	first, second := asking(t, definition), asking(t, definition)
	second.Topic = "another"
	renewed, stopped := approve(t, api, first), approve(t, api, second)

	queued, err := worker.QueuedRuns(ctx, 0, 10)
	must(t, err)
	if len(queued) != 2 {
		t.Errorf("the worker sees %d queued calls, want 2", len(queued))
	}
	claimed := claim(t, worker, renewed)
	leases, err := worker.RenewLeases(ctx, tenant,
		[]store.Renewal{{Call: renewed.ID, Fence: claimed.Call.Fence, Token: "t"}}, time.Minute.Milliseconds())
	must(t, err)
	if len(leases) != 1 {
		t.Errorf("%d leases were renewed, want 1", len(leases))
	}
	must(t, worker.StopQueued(ctx, tenant, stopped.ID, "the tool is gone"))
	_, err = worker.Finish(ctx, tenant, renewed.ID, claimed.Call.Fence, "t", model.Result{Kind: model.ResultUnknown, Text: "500"})
	must(t, err)

	server := model.MCPServer{Tenant: tenant, Name: "files", URL: "http://mcp.example", AutoApprove: model.AutoApproveRead}
	_, _, err = api.PutMCPServer(ctx, server, "key:ops", "api")
	must(t, err)
	wanted, err := worker.UnimportedServers(ctx, 10)
	must(t, err)
	if len(wanted) != 1 {
		t.Fatalf("the worker sees %d servers to import, want 1", len(wanted))
	}
	tool.Definition.Name, tool.Definition.HTTP = "files__delete_file", nil
	tool.Definition.Server, tool.Definition.MCP = "files", &model.MCPTarget{Tool: "delete_file"}
	must(t, worker.ImportTools(ctx, wanted[0], []model.Tool{tool}))
}

// The model loop of a worker goes on from a turn: it opens the next one, commits
// a call while the model still speaks, and ends it.
func TestTheWorkersRoleIsEnoughForTheModelLoop(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := grantedDatabase(t)
	api, worker := storeAs(t, url, "api"), storeAs(t, url, "worker")
	must(t, api.EnsureTenant(ctx, tenant))
	definition := model.ToolDefinition{
		Name: "delete_file", Effect: model.EffectUnsafe, Executor: model.ExecutorWorker, MaxAttempts: 3,
		Timeout: model.Duration(time.Second), HTTP: &model.HTTPTarget{Method: "POST", URL: "http://tool.example"},
	}
	_, err := api.PutTool(ctx, model.Tool{Tenant: tenant, Definition: definition}, "key:ops", "api")
	must(t, err)
	r := asking(t, definition)
	r.Turn.Sink = model.Sink{Type: model.SinkModel, AcceptWithin: time.Minute, Ask: model.Ask{Model: "m", Tools: []string{"delete_file"}}}
	call := approve(t, api, r)
	must(t, worker.StopQueued(ctx, tenant, call.ID, "the tool is gone"))

	due, err := worker.Unanswered(ctx, 0, 10)
	must(t, err)
	if len(due) != 1 {
		t.Fatalf("the worker sees %d continuations, want 1", len(due))
	}
	asked, err := worker.Turn(ctx, tenant, due[0].Turn)
	must(t, err)
	if asked.Sink.Ask.Model != "m" || len(asked.Sink.Ask.Tools) != 1 {
		t.Errorf("the turn asks %+v", asked.Sink)
	}
	live, err := worker.Register(ctx, store.Registration{Tenant: tenant, Topic: asked.Topic, Continues: asked.ID, Live: time.Minute,
		WhileOpen: store.WhileOpenParallel, Content: digest("live"), Turn: model.Turn{Execution: model.ExecuteWhenDecided, Sink: asked.Sink}})
	must(t, err)
	w := store.Streamer{Turn: live.Turn.ID, Topic: asked.Topic, Fence: live.Turn.Live.Fence, Token: live.Turn.Live.Token}
	begun, err := worker.BeginStream(ctx, tenant, w, time.Minute)
	must(t, err)
	w.Fence = begun.Fence
	must(t, worker.RenewStream(ctx, tenant, w, time.Minute))
	another := asking(t, definition).Calls[0]
	another.Call.ToolCallID = "another"
	_, err = worker.ExtendLive(ctx, tenant, store.Extension{Streamer: w, Parts: store.Parts{nil}, Calls: []store.NewCall{another},
		Expiry: time.Hour, Lease: time.Minute})
	must(t, err)
	_, err = worker.Messages(ctx, tenant, asked.Topic, store.Range{})
	must(t, err)
	_, err = worker.Tools(ctx, tenant, "", 10)
	must(t, err)
	done, err := worker.FinishLive(ctx, tenant, store.Ending{Turn: w.Turn, Topic: w.Topic, Fence: w.Fence, Token: w.Token, Content: digest("end"),
		Parts: store.Parts{[]byte(`{"type":"step-start"}`), nil}, Places: map[model.CallID]int{another.Call.ID: 1}, Expiry: time.Hour})
	must(t, err)
	if got := done.Turn.State(); got != model.TurnAwaitingApproval {
		t.Errorf("the turn is %s", got)
	}
}

// approve registers a turn that asks, and answers yes.
func approve(t *testing.T, api *store.Store, r store.Registration) *model.Call {
	t.Helper()
	registered, err := api.Register(t.Context(), r)
	must(t, err)
	call := registered.Turn.Calls[0]
	_, err = api.Decide(t.Context(), tenant, model.Decision{
		ID: model.NewToken(), Approval: call.Approval.ID, Approved: true, Channel: "api", Content: digest("yes"),
		By: model.Principal{Tenant: tenant, Key: "ops", Subject: "user:bob", Roles: []model.Role{model.RoleApprover}},
	})
	must(t, err)
	return call
}

func claim(t *testing.T, worker *store.Store, call *model.Call) store.Claimed {
	t.Helper()
	_, err := worker.Prepare(t.Context(), tenant, call.ID)
	must(t, err)
	claimed, err := worker.Claim(t.Context(), tenant, call.ID,
		model.Claim{Token: "t", Worker: "w", Lease: time.Minute, Digest: call.Digest})
	must(t, err)
	return claimed
}

func sweep(t *testing.T, continuer *store.Store) {
	t.Helper()
	for name, once := range map[string]func(context.Context) (int, error){
		"expire": continuer.ExpireApprovals, "lapse": continuer.LapseHolds, "leases": continuer.LoseLeases,
		"unclaimed": continuer.StopUnclaimed, "dead": continuer.CloseDeadTurns, "failed": continuer.FailContinuations, "link": continuer.LinkAudit,
	} {
		if _, err := once(t.Context()); err != nil {
			t.Errorf("sweep %s: %v", name, err)
		}
	}
}

// What a service never does, its role may not do, whoever speaks through it.
func TestNoRoleMayDoAnotherOnesPart(t *testing.T) {
	t.Parallel()
	url := grantedDatabase(t)
	for _, c := range []struct{ role, statement string }{
		{"worker", "insert into decisions default values"},
		{"continuer", "insert into decisions default values"},
		{"worker", "update approvals set state = state"},
		{"worker", "select from approvals for no key update"},
		{"worker", "delete from approvals"},
		{"worker", "delete from calls"},
		{"worker", "update calls set resolution = 'closed'"},
		{"continuer", "update calls set resolution = 'closed'"},
		{"worker", "update calls set input = input"},
		{"worker", "select from keys"},
		{"worker", "select from signing_secrets"},
		{"worker", "update policies set rule = rule"},
		{"continuer", "select from keys"},
		{"continuer", "update tools set name = name"},
		{"continuer", "update policies set rule = rule"},
		{"continuer", "insert into attempts default values"},
		{"api", "update decisions set reason = ''"},
		{"api", "delete from calls"},
		{"api", "update tool_definitions set hash = hash"},
		{"api", "create table mine ()"},
		{"api", "alter table audit disable trigger all"},
		{"api", "update audit set actor = ''"},
		{"continuer", "delete from audit"},
		{"worker", "truncate audit"},
		{"api", "insert into audit_chain default values"},
		{"worker", "insert into audit_chain default values"},
		{"continuer", "update audit_chain set hash = hash"},
		{"continuer", "delete from audit_chain"},
		{"api", "update audit_chainer set horizon = 0"},
	} {
		conn := connectAs(t, url, c.role)
		_, err := conn.Exec(t.Context(), c.statement)
		const insufficientPrivilege = "42501"
		if failed, is := errors.AsType[*pgconn.PgError](err); !is || failed.Code != insufficientPrivilege {
			t.Errorf("%s: %q = %v, want it refused for lack of privilege", c.role, c.statement, err)
		}
	}
}

// A table that a migration adds has to be thought of in roles.sql.
func TestEveryTableIsGrantedToSomebody(t *testing.T) {
	t.Parallel()
	conn := connect(t, grantedDatabase(t))
	rows, err := conn.Query(t.Context(), `
		select c.relname
		  from pg_class c
		 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and c.relname <> 'goose_db_version'
		   and not has_table_privilege('countersign_api', c.oid, 'select')`)
	must(t, err)
	forgotten, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(forgotten) > 0 {
		t.Errorf("roles.sql does not mention %s", strings.Join(forgotten, ", "))
	}
}

// granting is held while the roles are made: they belong to the whole server,
// which the tests share.
var granting sync.Mutex

// grantedDatabase returns the owner's URL of a database with schema and roles.
func grantedDatabase(t *testing.T) string {
	t.Helper()
	url := testservers.Database(t, store.Migrate)
	granting.Lock()
	defer granting.Unlock()
	for range 2 { // the second time changes nothing
		psql := exec.CommandContext(t.Context(), findPSQL(t), "--no-psqlrc", "--file", "roles.sql", url)
		psql.Env = append(os.Environ(), "API_PASSWORD=api's", "CONTINUER_PASSWORD=continuer", "WORKER_PASSWORD=worker")
		if output, err := psql.CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, output)
		}
	}
	return url
}

// findPSQL looks where Postgres itself is looked for.
func findPSQL(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("psql"); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql")
	if len(found) == 0 {
		t.Fatal("psql is missing: install it (Debian, Ubuntu: apt-get install postgresql-client)")
	}
	return found[len(found)-1]
}

func storeAs(t *testing.T, url, service string) *store.Store {
	t.Helper()
	s, err := store.New(urlAs(url, service), store.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func connectAs(t *testing.T, url, service string) *pgx.Conn {
	t.Helper()
	return connect(t, urlAs(url, service))
}

func urlAs(url, service string) string {
	return strings.Replace(url, "countersign@", "countersign_"+service+"@", 1)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// asking is a turn with one call about which a person is asked.
func asking(t *testing.T, definition model.ToolDefinition) store.Registration {
	t.Helper()
	_, hash, err := definition.Encode()
	must(t, err)
	id, input := model.NewCallID(), []byte(`{}`)
	call := store.NewCall{Input: input, Call: model.Call{
		ID: id, ToolCallID: "call_1", Part: 1, State: model.CallApprovalRequested,
		Tool: model.CallTool{Name: definition.Name, Definition: hash, Effect: definition.Effect,
			Executor: definition.Executor, MaxAttempts: definition.MaxAttempts},
		Digest:   model.Digest(tenant, id, definition.Name, hash, input),
		Approval: &model.Approval{ID: model.NewApprovalID(), State: model.ApprovalRequested, Rule: model.Requirement{Quorum: 1}},
	}}
	return store.Registration{
		Tenant: tenant, Topic: "chat", Message: "msg_1", WhileOpen: store.WhileOpenBlock, Content: digest("turn"),
		Turn: model.Turn{Execution: model.ExecuteWhenDecided, RequestedBy: "user:alice",
			Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}},
		Parts: store.Parts{[]byte(`{"type":"step-start"}`), nil}, Calls: []store.NewCall{call},
		Expiry: time.Hour, Actor: "key:backend", Channel: "api",
	}
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
