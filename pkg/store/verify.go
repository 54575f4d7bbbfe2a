package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Scope says what [Store.Verify] looks at. The zero value is everything that
// must hold at any moment.
type Scope struct {
	// Since leaves only turns of which the audit says something since then,
	// and what belongs to them. Zero: all rows.
	Since time.Time
	// AtRest also asks what must hold once nothing is under way.
	AtRest bool
	// Late is how long something at rest may be overdue before it counts.
	Late time.Duration
	// Turns bounds the turns of a window; those that changed last are taken.
	// 10,000 by default.
	Turns int
	// Rows bounds the violations of one invariant; 100 by default.
	Rows int
	// Timeout bounds one statement; a minute by default.
	Timeout time.Duration
}

// Violation is one row that breaks an invariant.
type Violation struct {
	Invariant Invariant
	Tenant    model.TenantID
	Topic     model.TopicID
	Turn      model.TurnID // "" where it is about no turn
	Call      model.CallID // "" where it is about no call
	Detail    string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s %s: tenant %s, topic %s, turn %s, call %s: %s",
		v.Invariant.Number, v.Invariant.Name, v.Tenant, v.Topic, v.Turn, v.Call, v.Detail)
}

// Verify asks every invariant in one snapshot, read only, and gives what
// breaks them, by invariant. It is safe at any moment on a live database: it
// locks nothing, and has a connection of its own with a timeout of its own.
func (s *Store) Verify(ctx context.Context, scope Scope) ([]Violation, error) {
	scope.defaults()
	conn, err := s.verifying(ctx, scope)
	if err != nil {
		return nil, unavailable(fmt.Errorf("verify: %w", err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	v := &verifier{conn: conn, scope: scope}
	if err := pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error { return v.all(ctx, tx) }); err != nil {
		return nil, unavailable(fmt.Errorf("verify: %w", err))
	}
	return v.found, nil
}

var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

func (s *Scope) defaults() {
	if s.Turns <= 0 {
		s.Turns = 10_000
	}
	if s.Rows <= 0 {
		s.Rows = 100
	}
	if s.Timeout <= 0 {
		s.Timeout = time.Minute
	}
}

// verifying opens the connection: the pools' bounds are for statements that
// touch a few rows.
func (s *Store) verifying(ctx context.Context, scope Scope) (*pgx.Conn, error) {
	config := s.pool.Config().ConnConfig.Copy()
	config.Tracer = bounds{statement: scope.Timeout + 2*time.Second}
	config.RuntimeParams["application_name"] = "countersign verify"
	config.RuntimeParams["statement_timeout"] = fmt.Sprint(scope.Timeout.Milliseconds())
	if !scope.Since.IsZero() {
		// A window's rows are found by their keys, whatever the statistics say.
		config.RuntimeParams["enable_seqscan"] = "off"
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return conn, registerUUIDs(ctx, conn)
}

// verifier asks the invariants within one snapshot.
type verifier struct {
	conn  *pgx.Conn
	scope Scope
	found []Violation
}

func (v *verifier) all(ctx context.Context, tx pgx.Tx) error {
	windows := []window{{}}
	if !v.scope.Since.IsZero() {
		var err error
		if windows, err = v.windows(ctx, tx); err != nil {
			return err
		}
	}
	for _, i := range Invariants() {
		if i.AtRest {
			if v.scope.AtRest {
				if err := v.ask(ctx, tx, i, window{}); err != nil {
					return err
				}
			}
			continue
		}
		for _, w := range windows {
			if err := v.ask(ctx, tx, i, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// window is a part of the turns that are looked at, small enough for one
// statement; the zero value is all.
type window struct{ tenants, turns []string }

// windowTurns bounds the turns of one statement.
const windowTurns = 1000

func (v *verifier) windows(ctx context.Context, tx pgx.Tx) ([]window, error) {
	rows, err := tx.Query(ctx, selectTouched, v.scope.Since, v.scope.Turns)
	if err != nil {
		return nil, err
	}
	out := []window{{}}
	tenants := map[string]bool{}
	var tenant, turn string
	_, err = pgx.ForEachRow(rows, []any{&tenant, &turn}, func() error {
		w := &out[len(out)-1]
		if len(w.turns) == windowTurns {
			out, tenants = append(out, window{}), map[string]bool{}
			w = &out[len(out)-1]
		}
		if w.turns = append(w.turns, turn); !tenants[tenant] {
			tenants[tenant] = true
			w.tenants = append(w.tenants, tenant)
		}
		return nil
	})
	return out, err
}

// selectTouched finds the turns of which the audit says something, and those
// that they continue.
const selectTouched = `
	with touched as (
	    select tenant_id, turn_id, max(audit_id) as last
	      from audit
	     where at >= $1 and turn_id is not null
	     group by tenant_id, turn_id
	     order by last desc
	     limit $2
	)
	select tenant_id, turn_id::text from touched
	 union
	select tenant_id, t.continues::text
	  from touched
	  join turns t using (tenant_id, turn_id)
	 where t.continues is not null
	 order by 1`

func (v *verifier) ask(ctx context.Context, tx pgx.Tx, i Invariant, w window) error {
	known := 0
	for _, one := range v.found {
		if one.Invariant.Name == i.Name {
			known++
		}
	}
	if known >= v.scope.Rows {
		return nil
	}
	tables, since := everywhere, time.Unix(0, 0)
	if !v.scope.Since.IsZero() {
		tables, since = inWindow, v.scope.Since
	}
	rows, err := tx.Query(ctx, violations(tables.Replace(i.sql)), pgx.NamedArgs{
		"tenants": w.tenants, "turns": w.turns, "since": since, "late": v.scope.Late, "rows": v.scope.Rows - known,
	})
	if err == nil {
		err = v.collect(i, rows)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", i.Number, i.Name, err)
	}
	return nil
}

func violations(query string) string {
	return `select tenant, coalesce(topic, ''), coalesce(turn, ''), coalesce(call, ''), coalesce(detail, '')
	          from (` + query + `) v (tenant, topic, turn, call, detail) limit @rows`
}

func (v *verifier) collect(i Invariant, rows pgx.Rows) error {
	one := Violation{Invariant: i}
	_, err := pgx.ForEachRow(rows, []any{&one.Tenant, &one.Topic, &one.Turn, &one.Call, &one.Detail}, func() error {
		v.found = append(v.found, one)
		return nil
	})
	return err
}
