package trial

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/test/nemesis/check"
	"github.com/countersign/countersign/test/nemesis/history"
)

// Report is what a run came to.
type Report struct {
	Seed       uint64
	Violations []check.Violation
	Empty      string        // why the run proved nothing, or ""
	First      time.Duration // after the users began, when the first was found

	Fired, Missed  map[string]int // faults by kind
	Ops            map[string]int // by kind and result
	Conversations  uint64
	Calls, Effects int
	Projected      int // looks at entries of Redis

	Conflicts, Redeliveries, Retries, Unknowns int

	slice string // what shows the first violation
}

// Failed tells whether the run found something, or nothing at all.
func (r Report) Failed() bool { return len(r.Violations) > 0 || r.Empty != "" }

func (t *trial) sumUp(f *check.Facts) Report {
	r := Report{Seed: t.Seed, Violations: t.found, First: t.first, Fired: map[string]int{}, Missed: map[string]int{}, Ops: map[string]int{},
		Conversations: t.world.Conversations(), Calls: len(f.Rows.Calls), Effects: len(f.Effects), Projected: t.redis.Seen()}
	for _, fault := range f.Faults {
		if fault.Fired {
			r.Fired[string(fault.Kind)]++
		} else {
			r.Missed[string(fault.Kind)+missedBy(fault.Did)]++
		}
	}
	for _, op := range f.Ops {
		r.Ops[string(op.Kind)+" "+string(op.Result)]++
		if op.Status == http.StatusConflict {
			r.Conflicts++
		}
		if op.Result == history.Unknown {
			r.Unknowns++
		}
	}
	for _, turn := range f.Rows.Turns {
		r.Redeliveries += max(turn.Deliveries-1, 0)
	}
	for _, call := range f.Rows.Calls {
		r.Redeliveries += max(call.Published-1, 0)
	}
	for _, attempt := range f.Rows.Attempts {
		if attempt.Fence > 1 {
			r.Retries++
		}
		if attempt.Outcome == "unknown" || attempt.Outcome == "lease-lost" {
			r.Unknowns++
		}
	}
	r.Empty = r.empty(t.Narrow)
	if len(t.found) > 0 {
		r.slice = slice(f, t.found[0])
	}
	return r
}

// missedBy is why a fault came to nothing, if there is more to say than that
// nobody met it.
func missedBy(did string) string {
	if did == "" {
		return ""
	}
	return " (" + did[:min(len(did), 120)] + ")"
}

// empty says why a run proved nothing.
func (r Report) empty(narrow bool) string {
	var missing []string
	for what, n := range map[string]int{"no fault fired": sum(r.Fired), "no call was made": r.Calls, "no tool did anything": r.Effects, "nothing was in Redis": r.Projected} {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	if !narrow {
		for what, n := range map[string]int{"no conflict": r.Conflicts, "no redelivery": r.Redeliveries, "no retry": r.Retries, "no unknown": r.Unknowns} {
			if n == 0 {
				missing = append(missing, what)
			}
		}
	}
	slices.Sort(missing)
	return strings.Join(missing, ", ")
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// most violations are printed one by one.
const mostPrinted = 12

func (r Report) print(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d: %d conversations, %d calls, %d effects\n", r.Seed, r.Conversations, r.Calls, r.Effects)
	fmt.Fprintf(out, "  faults fired    %s\n", counts(r.Fired))
	if len(r.Missed) > 0 {
		fmt.Fprintf(out, "  met nothing     %s\n", counts(r.Missed))
	}
	fmt.Fprintf(out, "  requests        %s\n", counts(r.Ops))
	fmt.Fprintf(out, "  hard cases      %d conflicts, %d redeliveries, %d retries, %d unknowns\n",
		r.Conflicts, r.Redeliveries, r.Retries, r.Unknowns)
	switch {
	case len(r.Violations) > 0:
		fmt.Fprintf(out, "\nVIOLATED, %d times; the first:\n\n%s\n\n%s\n", len(r.Violations), r.Violations[0], r.slice)
		for _, v := range r.Violations[1:min(len(r.Violations), mostPrinted)] {
			fmt.Fprintf(out, "also %s\n", v)
		}
	case r.Empty != "":
		fmt.Fprintf(out, "\nPROVED NOTHING: %s\n", r.Empty)
	default:
		fmt.Fprintf(out, "  every invariant holds\n")
	}
}

func counts(of map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}
