package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Claimed is a claim that was committed: the run has started, and its fence
// and token guard everything that its owner does.
type Claimed struct {
	Turn *model.Turn
	Call *model.Call
}

// Claim starts a queued run: the commit after which the first outside byte
// may be sent. Claim.Definition is read here, in the same transaction.
// The same token again gives the same claim. Errors: [model.ErrNotFound],
// [model.ErrNotClaimable] with the call as it stands.
func (s *Store) Claim(ctx context.Context, tenant model.TenantID, call model.CallID, claim model.Claim) (Claimed, error) {
	return s.claim.submit(ctx, tenant, claimItem{call, claim})
}

type claimItem struct {
	call  model.CallID
	claim model.Claim
}

func (s *Store) claimAll(ctx context.Context, tenant model.TenantID, items []claimItem) ([]outcome[Claimed], error) {
	var out []outcome[Claimed]
	var changes []Change
	err := transact(ctx, s.hot, "claim", func(ctx context.Context, t *tx) error {
		c := &claimer{unit: newUnit(tenant), items: items, current: map[string][]byte{}}
		if err := t.trip(ctx, c.read); err != nil {
			return err
		}
		out = c.judge()
		changed, err := c.dirty()
		switch {
		case err != nil:
			return err
		case !changed:
			return t.confirm(ctx, nothing)
		}
		// A claim alone shows nowhere; one that stops its call does.
		if err := t.commit(ctx, func(b *pgx.Batch) { c.save(b, c.stopped) }); err != nil {
			return err
		}
		changes = c.changes()
		return nil
	})
	if err == nil && len(changes) > 0 {
		s.changed(changes)
	}
	return out, err
}

// claimer is one claim transaction.
type claimer struct {
	*unit
	items   []claimItem
	current map[string][]byte // the definition's hash of each tool as it is now
	halted  bool
	stopped bool
}

func (c *claimer) read(b *pgx.Batch) {
	calls := make([]string, len(c.items))
	for i, it := range c.items {
		calls[i] = string(it.call)
	}
	c.loadByCalls(b, callTurns, calls)
	b.Queue(selectDefinitions, c.tenant, calls).Query(c.scanDefinitions)
	b.Queue(`select halted, clock_timestamp() from tenants where tenant_id = $1`, c.tenant).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.halted, &c.now)
	})
}

const callTurns = `
	select turn_id from calls
	 where tenant_id = $1 and call_id = any($2::uuid[])`

const selectDefinitions = `
	select name, hash from tools
	 where tenant_id = $1 and name = any(array(select tool from calls
	                                            where tenant_id = $1 and call_id = any($2::uuid[])))`

func (c *claimer) scanDefinitions(rows pgx.Rows) error {
	for rows.Next() {
		var name string
		var hash []byte
		if err := rows.Scan(&name, &hash); err != nil {
			return err
		}
		c.current[name] = hash
	}
	return rows.Err()
}

func (c *claimer) judge() []outcome[Claimed] {
	owner := c.owners()
	out := make([]outcome[Claimed], len(c.items))
	for i, it := range c.items {
		t := owner[it.call]
		if t == nil {
			out[i].err = model.ErrNotFound
			continue
		}
		call := t.Call(it.call)
		out[i] = outcome[Claimed]{Claimed{t, call}, c.one(t, call, it.claim)}
	}
	return out
}

func (c *claimer) one(t *model.Turn, call *model.Call, claim model.Claim) error {
	if c.halted && call.Run == model.RunQueued {
		c.stopped = t.StopQueued(call, "The kill switch is on. The tool did not run.", c.now)
		return model.ErrNotClaimable
	}
	claim.Definition = c.current[call.Tool.Name]
	err := t.Claim(call, claim, c.now)
	if call.Outcome == model.OutcomeStopped && call.Changed {
		c.stopped = true
	}
	return err
}

// owners finds the turn of each call that the unit holds.
func (u *unit) owners() map[model.CallID]*model.Turn {
	out := map[model.CallID]*model.Turn{}
	for _, t := range u.turns {
		for _, c := range t.Calls {
			out[c.ID] = t
		}
	}
	return out
}
