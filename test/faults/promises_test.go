package faults

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/internal/cluster/testcluster"
)

// keepsItsPromises stops the traffic and shows, of everything that it was
// told: what was acknowledged is there (I3), what was approved ran once (I4)
// and what was denied did not (I6), and every turn has its one continuation
// (I2, I8). It returns how many outcomes are not known, which is what is left
// of an unsafe call whose worker, or whose worker's database, was away.
func (w *traffic) keepsItsPromises() (unknown int) {
	w.t.Helper()
	w.stop()
	w.settles()
	standing := w.standing()
	if len(w.answered) == 0 {
		w.t.Error("nobody did anything")
	}
	for _, a := range w.answered {
		s, there := standing[a.call]
		switch ran := w.tool.times(a.call); {
		case !there || s.decision != a.decision || s.approved != a.approved:
			w.t.Errorf("call %s: decision %s (%t) was acknowledged, there is %+v (I3)", a.call, a.decision, a.approved, s)
		case !a.approved && ran > 0:
			w.t.Errorf("call %s was denied and ran %d times (I6)", a.call, ran)
		case ran > 1:
			w.t.Errorf("call %s of an unsafe tool ran %d times (I4)", a.call, ran)
		case a.approved && s.run == "outcome-unknown":
			unknown++
		case a.approved && (ran != 1 || s.run != "succeeded"):
			w.t.Errorf("call %s was approved and ran %d times, its run is %s (I8)", a.call, ran, s.run)
		case s.continuations != 1:
			w.t.Errorf("the turn of call %s has %d continuations (I2)", a.call, s.continuations)
		}
	}
	w.t.Logf("%d decisions, %d outcomes unknown; %d tries refused, %d cut off, the slowest took %s",
		len(w.answered), unknown, w.refused, w.cut, w.slowest)
	return unknown
}

// settles waits until nothing is left to do: whatever fails to come to an end
// is stranded (I8).
func (w *traffic) settles() {
	w.t.Helper()
	testcluster.Within(w.t, 2*testcluster.Deadline, "everything that was decided comes to an end", func(ctx context.Context) error {
		n, err := testcluster.One[int](ctx, w.d, `select count(*) from calls where run in ('queued', 'started')`)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d calls are queued or started", n)
		}
		return err
	})
}

// standing is what the rows say of a call.
type standing struct {
	run           string
	decision      string
	approved      bool
	continuations int
}

func (w *traffic) standing() map[string]standing {
	w.t.Helper()
	rows, err := w.d.Rows().QueryContext(w.t.Context(), `
		select c.call_id::text, coalesce(c.run, ''), d.decision_id, d.approved,
		       (select count(*) from continuations k where k.tenant_id = c.tenant_id and k.turn_id = c.turn_id)
		  from calls c
		  join decisions d using (tenant_id, call_id)`)
	must(w.t, err)
	defer rows.Close()
	out := map[string]standing{}
	for rows.Next() {
		var call string
		var s standing
		must(w.t, rows.Scan(&call, &s.run, &s.decision, &s.approved, &s.continuations))
		if _, twice := out[call]; twice {
			w.t.Errorf("call %s has two decisions (I1)", call)
		}
		out[call] = s
	}
	must(w.t, rows.Err())
	return out
}
