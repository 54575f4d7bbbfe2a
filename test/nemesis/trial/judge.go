package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign/test/nemesis/check"
	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/rows"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// judgeTime bounds reading and comparing everything.
const judgeTime = 4 * time.Minute

// judge compares everything, and sums the run up.
func (t *trial) judge(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	t.say("check", "rows, ledger, history, streams and Redis")
	facts, err := t.facts(ctx)
	if err != nil {
		return Report{}, err
	}
	if !t.violatedYet() {
		if err := t.compare(ctx, facts); err != nil {
			return Report{}, err
		}
	}
	report := t.sumUp(facts)
	report.print(t.Out)
	return report, nil
}

// compare does every check of a system at rest.
func (t *trial) compare(ctx context.Context, facts *check.Facts) error {
	if err := t.restful(ctx); err != nil {
		return err
	}
	t.logs()
	for _, v := range check.All(facts) {
		t.violated(v)
	}
	return t.projections(ctx, facts.Rows.Topics)
}

func (t *trial) facts(ctx context.Context) (*check.Facts, error) {
	all, err := rows.Read(ctx, t.site.DatabaseURL())
	if err != nil {
		return nil, fmt.Errorf("read the rows: %w", err)
	}
	effects, err := ledger.Read(t.site.Ledger)
	if err != nil {
		return nil, err
	}
	requests, err := ledger.Requests(t.site.Ledger)
	if err != nil {
		return nil, err
	}
	return &check.Facts{Rows: all, Effects: effects, Requests: requests, Ops: t.history.Ops(), Faults: t.injector.Records(),
		Stalls: t.stalls, Lease: schedule.Lease, Begin: t.began}, nil
}

// logs looks for what a program says only when it has a bug.
func (t *trial) logs() {
	for _, name := range schedule.Services {
		for _, text := range []string{"illegal transition", "panic", "DATA RACE", "verdict_is_final", "append_only"} {
			if t.site.Node(name).Said(text) {
				t.violated(check.Violation{Invariant: "I1: nothing tries what the database has to refuse",
					Detail: fmt.Sprintf("%s wrote %q; its log is in %s/logs", name, text, t.Dir)})
			}
		}
	}
}
