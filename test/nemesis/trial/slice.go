package trial

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/test/nemesis/check"
	"github.com/countersign/countersign/test/nemesis/history"
)

const (
	mostOps = 80
	// around is how long before and after a violation's events a fault may
	// have to do with them.
	around = 2 * time.Second
)

// slice shows what a violation is about: the requests, the faults of that
// time, the rows and the ledger's lines.
func slice(f *check.Facts, v check.Violation) string {
	var out strings.Builder
	from, to := time.Duration(1<<62), time.Duration(0)
	shown := 0
	fmt.Fprintf(&out, "requests:\n")
	for _, op := range f.Ops {
		waits := op.Kind == history.Turn || op.Kind == history.Topic // again and again
		if waits || !concerns(v, op.Tenant, op.Topic, op.Turn, op.Call, op.Approval) {
			continue
		}
		from, to = min(from, op.Invoked), max(to, op.Returned, op.Invoked)
		if shown++; shown <= mostOps {
			fmt.Fprintf(&out, "  %s\n", brief(op))
		}
	}
	if shown > mostOps {
		fmt.Fprintf(&out, "  and %d more in history.jsonl\n", shown-mostOps)
	}
	fmt.Fprintf(&out, "faults:\n")
	for _, r := range f.Faults {
		if r.Ended >= from-around && r.Began <= to+around {
			fmt.Fprintf(&out, "  %s\n", r)
		}
	}
	rowsOf(&out, f, v)
	return out.String()
}

func rowsOf(out *strings.Builder, f *check.Facts, v check.Violation) {
	fmt.Fprintf(out, "rows:\n")
	calls := map[string]bool{}
	for _, t := range f.Rows.Turns {
		if concerns(v, t.Tenant, t.Topic, t.ID, "", "") {
			line(out, "turn", t)
		}
	}
	for _, c := range f.Rows.Calls {
		if concerns(v, c.Tenant, c.Topic, c.Turn, c.ID, c.Approval) {
			calls[c.ID] = true
			c.Definition = nil
			line(out, "call", c)
			fmt.Fprintf(out, "    its input %s, its output %.200s\n", c.Input, c.Output)
		}
	}
	for _, d := range f.Rows.Decisions {
		if calls[d.Call] {
			line(out, "decision", d)
		}
	}
	for _, a := range f.Rows.Attempts {
		if calls[a.Call] {
			line(out, "attempt", a)
		}
	}
	fmt.Fprintf(out, "ledger:\n")
	for _, r := range f.Requests {
		if calls[r.Call] {
			line(out, "request", r)
		}
	}
	for _, e := range f.Effects {
		if calls[e.Call] {
			line(out, "effect", e)
		}
	}
}

// concerns tells whether something is about what a violation is about: the
// call, else the turn, else the topic.
func concerns(v check.Violation, tenant, topic, turn, call, approval string) bool {
	if v.Tenant != "" && tenant != "" && v.Tenant != tenant {
		return false
	}
	switch {
	case v.Call != "" && call != "" && v.Call != call:
		return false
	case v.Turn != "" && turn != "" && v.Turn != turn:
		return false
	case v.Approval != "" && approval != "":
		return v.Approval == approval
	}
	if v.Topic == "" {
		return v.Call != "" && v.Call == call || v.Turn != "" && v.Turn == turn
	}
	return v.Topic == topic
}

func line(out *strings.Builder, what string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", v)
	}
	fmt.Fprintf(out, "  %-8s %s\n", what, text)
}

// brief is one request in a line.
func brief(op history.Op) string {
	text, err := json.Marshal(op)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%8.3fs to %8.3fs  %-8s %-8s %s", op.Invoked.Seconds(), op.Returned.Seconds(), op.Kind, op.Result, text)
}
