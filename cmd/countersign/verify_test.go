package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/countersign/countersign/internal/localservers/testservers"
	"github.com/countersign/countersign/pkg/store"
)

// audited is a database with a chain over a few lines of the audit.
type audited struct {
	t   *testing.T
	url string
	s   *store.Store
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	url := testservers.Database(t, nil)
	must(t, store.Migrate(t.Context(), url))
	s, err := store.New(url, store.Options{})
	must(t, err)
	t.Cleanup(s.Close)
	must(t, s.EnsureTenant(t.Context(), "default"))
	for range 3 {
		must(t, second(s.PutKey(t.Context(), "default", store.KeyRow{Name: "ops"}, store.NewKey(), "test", "test")))
	}
	must(t, second(s.LinkAudit(t.Context())))
	return &audited{t, url, s}
}

// tamper does what only the owner of the database can.
func (a *audited) tamper(statement string) {
	a.t.Helper()
	db, err := sql.Open("pgx", a.url)
	must(a.t, err)
	defer db.Close()
	_, err = db.ExecContext(a.t.Context(), `do $$ begin perform set_config('session_replication_role', 'replica', true); `+statement+`; end $$`)
	must(a.t, err)
}

func (a *audited) verify(args ...string) said {
	a.t.Helper()
	p := quiet()
	code := run(a.t.Context(), slices.Concat([]string{"verify", "--database-url", a.url}, args), p)
	return said{code, p.out.(*bytes.Buffer).String(), p.err.(*bytes.Buffer).String()}
}

// What holds is said with exit code 0 and the chain's head, what is violated
// with exit code 1, what it means and what to look at (I10).
func TestVerifyTellsWhatIsViolated(t *testing.T) {
	t.Parallel()
	a := newAudited(t)
	for _, args := range [][]string{{"--no-json"}, {"--no-json", "--at-rest", "--since", "1h"}} {
		if got := a.verify(args...); got.code != exitOK || !strings.Contains(got.out, "invariants hold") || !strings.Contains(got.out, "audit head default=") {
			t.Fatalf("%v: exit code %d: %s%s", args, got.code, got.out, got.err)
		}
	}
	a.tamper(`update audit set actor = 'user:eve' where audit_id = (select min(audit_id) from audit)`)
	got := a.verify("--no-json")
	if got.code != exitError || !strings.Contains(got.err, "1 violations") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	for _, part := range []string{"I10 link-fits-row: violated by 1", "is not as it was linked", "Look at a backup"} {
		if !strings.Contains(got.out, part) {
			t.Errorf("it does not say %q:\n%s", part, got.out)
		}
	}
	got = a.verify("--json")
	var d verifyDocument
	must(t, json.Unmarshal([]byte(got.out), &d))
	if got.code != exitError || d.Holds || len(d.Violations) != 1 || d.Violations[0].Check != "link-fits-row" || d.Violations[0].Next == "" || len(d.Heads) != 1 {
		t.Errorf("exit code %d: %+v", got.code, d)
	}
}

// Whoever cuts off the end of the audit with its links leaves a chain that
// verifies; only a head that was kept elsewhere shows it.
func TestAKeptHeadShowsWhatWasCutOff(t *testing.T) {
	t.Parallel()
	a := newAudited(t)
	heads, err := a.s.AuditHeads(t.Context())
	must(t, err)
	kept := "default=" + heads[0].String()
	must(t, second(a.s.PutKey(t.Context(), "default", store.KeyRow{Name: "ops"}, store.NewKey(), "test", "test")))
	must(t, second(a.s.LinkAudit(t.Context())))
	if got := a.verify("--head", kept, "--head", heads[0].String()); got.code != exitOK {
		t.Fatalf("the chain grew: exit code %d: %s%s", got.code, got.out, got.err)
	}
	a.tamper(`delete from audit where audit_id in (select audit_id from audit_chain where seq >= 3); delete from audit_chain where seq >= 3`)
	if got := a.verify(); got.code != exitOK {
		t.Errorf("the rest verifies: exit code %d: %s%s", got.code, got.out, got.err)
	}
	if got := a.verify("--head", kept, "--no-json"); got.code != exitError || !strings.Contains(got.out, kept+" is not in the chain") {
		t.Errorf("the kept head: exit code %d: %s%s", got.code, got.out, got.err)
	}
	for _, wrong := range []string{"3", "3:ab", "x:" + strings.Repeat("0", 64)} {
		if got := a.verify("--head", wrong); got.code != exitUsage {
			t.Errorf("--head %s: exit code %d: %s", wrong, got.code, got.err)
		}
	}
}

// Without a database it says how to name one.
func TestVerifyNeedsADatabase(t *testing.T) {
	t.Parallel()
	p := quiet()
	code := run(t.Context(), []string{"verify", "--database-url", "", "--data", t.TempDir()}, p)
	if code != exitUsage || !strings.Contains(p.err.(*bytes.Buffer).String(), "COUNTERSIGN_DATABASE_URL") {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}
