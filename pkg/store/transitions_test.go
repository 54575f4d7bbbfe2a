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
// verdict cannot be changed, and what only grows cannot shrink.
func TestTheDatabaseRefusesWhatTheRulesForbid(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	out := register(t, s, registration("t1", asking(tool, "c1")))
	if _, err := s.Decide(t.Context(), tenant, verdict(out.Turn.Calls[0], true, "bob")); err != nil {
		t.Fatal(err)
	}
	linkAudit(t, s)
	for name, statement := range map[string]string{
		"legal_transition state":        `update calls set state = 'approval-requested'`,
		"legal_transition run":          `update calls set run = 'succeeded'`,
		"legal_transition approval":     `update approvals set state = 'denied'`,
		"verdict_is_final":              `update approvals set reason = 'changed'`,
		"append_only decisions":         `delete from decisions`,
		"append_only decisions changed": `update decisions set approved = false`,
		"append_only audit":             `delete from audit`,
		"append_only chain":             `delete from audit_chain`,
		"append_only chain changed":     `update audit_chain set hash = ''`,
	} {
		_, err := s.pool.Exec(t.Context(), statement)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "23514" {
			t.Errorf("%s: %v", name, err)
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
