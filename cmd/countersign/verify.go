package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

type verifyCmd struct {
	DatabaseURL daemon.Secret `name:"database-url" env:"COUNTERSIGN_DATABASE_URL" placeholder:"URL" help:"Postgres; by default that of a running \"countersign dev\". Any role that may read will do."`
	Data        string        `help:"Data folder of a running \"countersign dev\"." env:"COUNTERSIGN_DATA" placeholder:"DIR" type:"path"`
	JSON        *bool         `help:"Print JSON, or with --no-json tables (default: tables on a terminal)." name:"json" negatable:""`

	AtRest bool          `help:"Also ask what holds once nothing is under way: nothing queued, owed, overdue or unlinked."`
	Late   time.Duration `help:"With --at-rest: what is overdue for less does not count." default:"0s"`
	Since  time.Duration `help:"Only turns that changed within this time, which costs little on a large database: 1h." placeholder:"DURATION"`
	Head   []string      `help:"A head of the audit chain that was printed or logged earlier: it must still be there." placeholder:"[TENANT=]SEQ:HASH" sep:"none"`
	Rows   int           `help:"At most so many violations of each invariant." default:"100"`
}

// Help is what countersign verify --help adds.
func (verifyCmd) Help() string {
	return `Asks the rows of all tenants, in one snapshot and without a lock, whether they break one of the invariants I1 to I10:
verdicts that changed, turns that can never continue, calls that ran twice or unapproved, counters that lie, an audit
that was edited. It changes nothing and can run at any moment. Exit code 1 when anything is violated.

It ends with the head of each tenant's audit chain. Keep one where nobody who can write to the database can change it,
and give it back with --head: nothing else can show that the end of the chain was cut off.

Examples:
  countersign verify
  countersign verify --at-rest --late 1m
  COUNTERSIGN_DATABASE_URL=postgres://reader@db/countersign countersign verify --since 24h --json
  countersign verify --head default=4711:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`
}

// Run verifies; what is violated is the answer, and an error.
func (c *verifyCmd) Run(ctx context.Context, p process) error {
	kept, err := parseHeads(c.Head)
	if err != nil {
		return err
	}
	s, err := c.open(p)
	if err != nil {
		return err
	}
	defer s.Close()
	scope := store.Scope{AtRest: c.AtRest, Late: c.Late, Rows: c.Rows}
	if c.Since > 0 {
		scope.Since = time.Now().Add(-c.Since)
	}
	var r verifyReport
	if r.found, err = s.Verify(ctx, scope); err != nil {
		return err
	}
	for _, head := range kept {
		if r.cut, err = appendCut(ctx, s, r.cut, head); err != nil {
			return err
		}
	}
	if r.heads, err = s.AuditHeads(ctx); err != nil {
		return err
	}
	r.atRest = c.AtRest
	out := people{JSON: c.JSON}.output(p)
	if err := r.show(out); err != nil {
		return err
	}
	if n := len(r.found) + len(r.cut); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

func (c *verifyCmd) open(p process) (*store.Store, error) {
	d := database{DatabaseURL: c.DatabaseURL}
	if d.DatabaseURL.Reveal() == "" {
		dev, err := people{Data: c.Data}.development(p)
		if err != nil {
			return nil, usagef("no database named: set COUNTERSIGN_DATABASE_URL, or --database-url (%w)", err)
		}
		d.DatabaseURL = daemon.Secret(dev.DatabaseURL)
	}
	return d.open()
}

func appendCut(ctx context.Context, s *store.Store, cut []store.AuditHead, head store.AuditHead) ([]store.AuditHead, error) {
	there, err := s.HasAuditHead(ctx, head)
	if err == nil && !there {
		cut = append(cut, head)
	}
	return cut, err
}

// parseHeads reads heads as they are printed and logged.
func parseHeads(args []string) ([]store.AuditHead, error) {
	var out []store.AuditHead
	for _, arg := range args {
		tenant, head := "default", arg
		if i := strings.LastIndex(arg, "="); i >= 0 {
			tenant, head = arg[:i], arg[i+1:]
		}
		number, digits, _ := strings.Cut(head, ":")
		seq, err := strconv.ParseInt(number, 10, 64)
		hash, bad := hex.DecodeString(digits)
		if err != nil || bad != nil || len(hash) != 32 {
			return nil, usagef("--head %s is not [TENANT=]SEQ:HASH as verify prints it", arg)
		}
		out = append(out, store.AuditHead{Tenant: model.TenantID(tenant), Seq: seq, Hash: hash})
	}
	return out, nil
}
