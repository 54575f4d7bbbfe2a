package store

import (
	"strings"
	"testing"
)

// skewed is a table as several customers make it: thousands of tenants with
// three calls each, and one with as many as a third of them together.
const skewed = `
	set local session_replication_role = replica;
	insert into calls (tenant_id, call_id, turn_id, topic_id, message_id, part, tool_call_id, tool, effect, executor, max_attempts,
	                   key_retention_ms, timeout_ms, state, input, digest)
	select case when n <= 9000 then 'small' || n % 3000 else 'large' end, gen_random_uuid(), gen_random_uuid(), 'topic', 'message', 1,
	       'call', 'tool', 'unsafe', 'worker', 1, 0, 0, 'approval-requested', '', ''
	  from generate_series(1, 12000) n;`

// The plan of a statement is made once for all tenants, so it must be right for
// the largest: a call is found by its id, whatever else its tenant has.
func TestAPlanGoesByTheWholeKeyWhateverATenantHas(t *testing.T) {
	t.Parallel()
	s := open(t)
	conn, err := s.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(sql string) []string {
		t.Helper()
		results, err := conn.Conn().PgConn().Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		var lines []string
		for _, row := range results[len(results)-1].Rows {
			lines = append(lines, string(row[0]))
		}
		return lines
	}
	run("begin")
	run(skewed)
	run("commit")
	run("analyze calls")
	nulls := strings.Repeat(", null", strings.Count(updateCalls.all, "unnest("))
	for name, sql := range map[string]string{"update": updateCalls.all, "owners": callTurns, "prepare": selectPreparedCalls} {
		args := nulls
		if name != "update" {
			args = ", null"
		}
		run("prepare " + name + "_x as " + sql)
		plan := strings.Join(run("explain execute "+name+"_x ('large'"+args+")"), "\n")
		if !strings.Contains(plan, "Index Cond: ((tenant_id = $1) AND (call_id = ANY ($2)))") {
			t.Errorf("%s goes through all that a tenant has:\n%s", name, plan)
		}
	}
}
