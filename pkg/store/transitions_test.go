package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/model"
)

// The database's table of legal edges is the one of the rules, edge by edge,
// and the pure function allows exactly these pairs (I1).
func TestTheDatabaseAndTheRulesAgreeOnEveryEdge(t *testing.T) {
	t.Parallel()
	s := open(t)
	rows, err := s.pool.Query(t.Context(), `
		select m, split_part(edge, '>', 1), split_part(edge, '>', 2)
		  from unnest(array['call', 'approval', 'run', 'continuation']) m, unnest(legal_edges(m)) edge`)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[model.Transition])
	if err != nil {
		t.Fatal(err)
	}
	for _, machine := range []model.Machine{model.MachineCall, model.MachineApproval, model.MachineRun, model.MachineContinuation} {
		states := statesOf(machine)
		for _, from := range states {
			for _, to := range states {
				inDatabase := slices.Contains(stored, model.Transition{Machine: machine, From: from, To: to})
				if pure := model.CheckTransition(machine, from, to); (pure == nil) != inDatabase {
					t.Errorf("%s from %q to %q: in the database %v, by the rules %v", machine, from, to, inDatabase, pure)
				}
			}
		}
	}
	if len(stored) != len(model.Transitions) {
		t.Errorf("%d edges in the database, %d in the rules", len(stored), len(model.Transitions))
	}
}

func statesOf(m model.Machine) []string {
	var out []string
	for _, e := range model.Transitions {
		if e.Machine == m {
			out = append(out, e.From, e.To)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The triggers are on the columns: a decided call cannot be reopened, a
// verdict cannot be changed, what only grows cannot shrink, and a row says
// nothing that contradicts itself. Each is refused under its rule's name.
func TestTheDatabaseRefusesWhatTheRulesForbid(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	approved, denied := register(t, s, registration("t1", asking(tool, "c1"))), register(t, s, registration("t2", asking(tool, "c2")))
	register(t, s, registration("t3", asking(tool, "c3")))
	for turn, yes := range map[*model.Turn]bool{approved.Turn: true, denied.Turn: false} {
		if _, err := s.Decide(t.Context(), tenant, verdict(turn.Calls[0], yes, "bob")); err != nil {
			t.Fatal(err)
		}
	}
	linkAudit(t, s)
	const isDecided, isOpen = ` where state = 'approved'`, ` where state = 'requested'`
	for _, test := range []struct{ rule, statement string }{
		{"legal_transition", `update calls set state = 'approval-requested' where state = 'approval-responded'`},
		{"legal_transition", `update calls set run = 'succeeded' where run = 'queued'`},
		{"legal_transition", `update approvals set state = 'denied'` + isDecided},
		{"calls_started_has_lease", `update calls set run = 'started' where run = 'queued'`},
		{"calls_settled_runs_are_over", `update calls set state = 'output-available' where run = 'queued'`},
		{"calls_denied_never_ran", `update calls set fence = 1 where state = 'output-denied'`},
		{"verdict_is_final", `update approvals set reason = 'changed'` + isDecided},
		{"approvals_decided_is_complete", `update approvals set decided_at = clock_timestamp()` + isOpen},
		{"approvals_verdict_has_decider", `update approvals set state = 'approved', decided_at = clock_timestamp()` + isOpen},
		{"approvals_are_asked_first", `insert into approvals (tenant_id, approval_id, call_id, turn_id, topic_id, state, requested_at, expires_at, rule, decided_by, decided_at)
			select tenant_id, gen_random_uuid(), call_id, turn_id, topic_id, state, requested_at, expires_at, rule, 'user:bob', decided_at
			  from approvals` + isDecided},
		{"continuations_accepted_by_one", `update continuations set state = 'accepted'`},
		{"append_only", `delete from decisions`},
		{"append_only", `update decisions set approved = false`},
		{"append_only", `delete from audit`},
		{"append_only", `delete from audit_chain`},
		{"append_only", `update audit_chain set hash = ''`},
	} {
		_, err := s.pool.Exec(t.Context(), test.statement)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "23514" || pg.ConstraintName != test.rule {
			t.Errorf("%s: %v, want it refused by %s", test.statement, err, test.rule)
		}
	}
}

// Every counter that the rules keep is what the rows say.
func requireConsistent(t *testing.T, s *Store) {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), `
		select 'turn ' || t.turn_id
		  from turns t
		 where t.open_approvals <> (select count(*) from calls c where c.turn_id = t.turn_id and c.state = 'approval-requested')
		    or t.open_calls <> (select count(*) from calls c where c.turn_id = t.turn_id
		                           and c.state not in ('output-available', 'output-error', 'output-denied'))
		 union all
		select 'topic ' || p.topic_id
		  from topics p
		 where p.awaiting <> (select count(*) from turns t where t.topic_id = p.topic_id and t.state = 'awaiting-approval')
		    or p.executing <> (select count(*) from turns t where t.topic_id = p.topic_id and t.state = 'executing')
		    or p.continuing + p.failed <> (select count(*) from turns t where t.topic_id = p.topic_id and t.state = 'continuing')
		    or p.streaming <> (select count(*) from turns t where t.topic_id = p.topic_id and t.state = 'streaming')
		    or p.attention <> (select count(*) from turns t where t.topic_id = p.topic_id and t.state = 'needs-attention')
		 union all
		select 'turn without its one continuation ' || t.turn_id
		  from turns t
		 where t.ended = '' and not t.streaming and t.open_calls = 0
		   and exists (select from calls c where c.turn_id = t.turn_id)
		   and not exists (select from continuations k where k.turn_id = t.turn_id)`)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Errorf("inconsistent: %s", w)
	}
}
