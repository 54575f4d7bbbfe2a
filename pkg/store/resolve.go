package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// ResolvedCall is what a resolution came to. Turn and Call are set whenever
// the call exists, with an error too: they are what explains it.
type ResolvedCall struct {
	Result model.ResolutionResult
	Turn   *model.Turn
	Call   *model.Call
	Topic  model.Topic
}

// Resolve settles a run whose outcome nobody knows by a person's word: the
// end of the call, the continuation if that was the last, and the record of
// who said so are one commit. The same resolution again is nothing new.
// Errors, each with Turn and Call unless it is the first:
// [model.ErrNotFound], [model.ErrNotPermitted], [model.ErrAlreadyResolved],
// [model.ErrNotUnknown], [model.AttemptMayBeAlive].
func (s *Store) Resolve(ctx context.Context, tenant model.TenantID, call model.CallID, r model.Resolution) (ResolvedCall, error) {
	return s.resolve.submit(ctx, tenant, resolveItem{call, r, new(bool)})
}

// resolveItem remembers that a try found the call unresolved: if a later one
// finds it resolved by the same person in the same words, it was the try
// before, whose commit was not known.
type resolveItem struct {
	call       model.CallID
	resolution model.Resolution
	unresolved *bool
}

func (s *Store) resolveAll(ctx context.Context, tenant model.TenantID, items []resolveItem) ([]outcome[ResolvedCall], error) {
	var out []outcome[ResolvedCall]
	err := transact(ctx, s.hot, "resolve", func(ctx context.Context, t *tx) error {
		r := &resolver{unit: newUnit(tenant), items: items}
		if err := t.trip(ctx, r.read); err != nil {
			return err
		}
		out = r.judge()
		changed, err := r.dirty()
		if err != nil {
			return err
		}
		if !changed {
			err = t.confirm(ctx, r.readTopics)
		} else {
			err = t.commit(ctx, func(b *pgx.Batch) { r.readTopics(b); r.saveChanged(b) })
		}
		if err != nil {
			return err
		}
		for i := range out {
			out[i].value.Topic = r.topicOf(out[i].value.Turn)
		}
		s.changed(r.changes())
		return nil
	})
	return out, err
}

// resolver is one resolve transaction.
type resolver struct {
	*unit
	items []resolveItem
}

func (r *resolver) read(b *pgx.Batch) {
	calls := make([]string, len(r.items))
	for i, it := range r.items {
		calls[i] = string(it.call)
	}
	r.loadByCalls(b, callTurns, calls)
	b.Queue(selectResolutions, r.tenant, calls).Query(r.scanResolutions)
	r.clock(b)
}

// selectResolutions reads the rest of what scanCall does not; whoever compares
// another resolution with it needs the output, too.
const (
	selectResolutions = resolutionColumns + `, output` + resolvedCalls
	selectResolvers   = resolutionColumns + `, null::bytea` + resolvedCalls

	resolutionColumns = `
	select call_id::text, evidence, resolved_by, resolved_channel, resolved_at`
	resolvedCalls = `
	  from calls
	 where tenant_id = $1 and call_id = any($2::uuid[]) and resolution <> ''`
)

func (r *resolver) scanResolutions(rows pgx.Rows) error {
	calls := map[model.CallID]*model.Call{}
	for _, t := range r.turns {
		for _, c := range t.Calls {
			calls[c.ID] = c
		}
	}
	return attachResolutions(rows, calls)
}

// attachResolutions gives calls the rest of the resolutions that stand.
func attachResolutions(rows pgx.Rows, calls map[model.CallID]*model.Call) error {
	for rows.Next() {
		var id model.CallID
		var stands model.Resolved
		if err := rows.Scan(&id, &stands.Evidence, &stands.By, &stands.Channel, &stands.At, &stands.Output); err != nil {
			return err
		}
		if c := calls[id]; c != nil && c.Resolution != nil {
			stands.Outcome = c.Resolution.Outcome
			*c.Resolution = stands
		}
	}
	return rows.Err()
}

// judge answers the items in order, each as if those before it had been
// committed.
func (r *resolver) judge() []outcome[ResolvedCall] {
	owner := r.owners()
	out := make([]outcome[ResolvedCall], len(r.items))
	for i, it := range r.items {
		t := owner[it.call]
		if t == nil {
			out[i].err = model.ErrNotFound
			continue
		}
		call := t.Call(it.call)
		result, err := t.Resolve(call, it.resolution, r.now)
		if result == model.ResolutionAlreadyApplied && *it.unresolved && it.gave(call.Resolution) {
			result = model.ResolutionApplied
		}
		*it.unresolved = *it.unresolved || result == model.ResolutionApplied
		out[i] = outcome[ResolvedCall]{ResolvedCall{Result: result, Turn: t, Call: call}, err}
	}
	return out
}

// gave tells whether a resolution that stands is the item's own.
func (it resolveItem) gave(stands *model.Resolved) bool {
	mine := it.resolution
	return stands.By == mine.By.Subject && stands.Channel == mine.Channel && stands.Evidence == mine.Evidence
}

// saveResolutions writes the resolutions that were given. It comes after the
// runs that they end.
func (u *unit) saveResolutions(b *pgx.Batch, turns []*model.Turn) {
	var ids, outcomes, evidence, by, channels []string
	var at []time.Time
	for _, t := range turns {
		for _, c := range t.Calls {
			if r := c.Resolution; r != nil && r.Changed {
				ids, outcomes, evidence = append(ids, string(c.ID)), append(outcomes, string(r.Outcome)), append(evidence, r.Evidence)
				by, channels, at = append(by, r.By), append(channels, r.Channel), append(at, r.At)
			}
		}
	}
	if len(ids) > 0 {
		b.Queue(updateResolutions, u.tenant, ids, outcomes, evidence, by, channels, at)
	}
}

const updateResolutions = `
	update calls c
	   set resolution = d.resolution,
	       evidence = d.evidence,
	       resolved_by = d.resolved_by,
	       resolved_channel = d.resolved_channel,
	       resolved_at = d.resolved_at
	  from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
	       as d (call_id, resolution, evidence, resolved_by, resolved_channel, resolved_at)
	 where c.tenant_id = $1 and c.call_id = d.call_id and c.call_id = any($2::uuid[]) and c.resolution = ''`
