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
	// Lines bounds the lines of the audit that a window looks at; the last
	// are taken. A million by default.
	Lines int
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
	var v verifier
	err := s.look(ctx, scope, func(found *verifier, tx pgx.Tx) error {
		v = *found
		return v.all(ctx, tx)
	})
	return v.found, err
}

// Audit is [Store.Verify] by one node at a time: mine is false where another
// one is at it, and nothing was looked at.
func (s *Store) Audit(ctx context.Context, scope Scope) (found []Violation, mine bool, err error) {
	var v verifier
	err = s.look(ctx, scope, func(found *verifier, tx pgx.Tx) error {
		v = *found
		if err := tx.QueryRow(ctx, tryAudit).Scan(&mine); err != nil || !mine {
			return err
		}
		return v.all(ctx, tx)
	})
	return v.found, mine && err == nil, err
}

// tryAudit takes a lock that ends with the transaction; the number is nobody
// else's.
const tryAudit = `select pg_try_advisory_xact_lock(7203485617)`

func (s *Store) look(ctx context.Context, scope Scope, do func(*verifier, pgx.Tx) error) error {
	scope.defaults()
	conn, err := s.verifying(ctx, scope)
	if err != nil {
		return unavailable(fmt.Errorf("verify: %w", err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error { return do(&verifier{scope: scope}, tx) })
	if err != nil {
		return unavailable(fmt.Errorf("verify: %w", err))
	}
	return nil
}

var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

func (s *Scope) defaults() {
	if s.Lines <= 0 {
		s.Lines = 1_000_000
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
	// A window's rows are found by their keys, all rows by hashing each table
	// once: whatever the statistics say, which a server forgets when it crashes.
	if scope.Since.IsZero() {
		config.RuntimeParams["enable_nestloop"] = "off"
		config.RuntimeParams["enable_mergejoin"] = "off"
	} else {
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
	scope Scope
	xid   int64 // where the window's audit begins
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

// windows finds the turns of which the audit says something since the window's
// begin. Where that is more than may be looked at, the window begins later.
func (v *verifier) windows(ctx context.Context, tx pgx.Tx) ([]window, error) {
	var full bool
	var first time.Time
	if err := tx.QueryRow(ctx, selectBegin, v.scope.Since, v.scope.Lines).Scan(&v.xid, &first, &full); err != nil {
		return nil, err
	}
	if full {
		// A transaction can be older than the time that its rows name, not by more.
		v.scope.Since = first.Add(commitTimeout)
	}
	rows, err := tx.Query(ctx, selectTouched, v.xid, v.scope.Since)
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

const selectBegin = `
	select coalesce(min(xid) filter (where at >= $1), 0), coalesce(min(at), $1), count(*) = $2 and bool_and(at >= $1)
	  from (select xid, at from audit order by xid desc limit $2) last`

// selectTouched finds the turns of which the audit says something, and those
// that they continue.
const selectTouched = `
	with touched as (
	    select distinct tenant_id, turn_id
	      from audit
	     where xid >= $1 and at >= $2 and turn_id is not null
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
		"tenants": w.tenants, "turns": w.turns, "since": since, "xid": v.xid, "late": v.scope.Late, "rows": v.scope.Rows - known,
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
