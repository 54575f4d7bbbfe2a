package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print draws the report as a table.
func (r Report) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "in flight\tround trips/s\tof limit\twrites/trip\tregister\tdecide\tdecision→start\ttool→continuation\t")
	for _, l := range r.Levels {
		fmt.Fprintf(t, "%d\t%.0f\t%s\t%.2f\t%s\t%s\t%s\t%s\t\n", l.InFlight, l.PerSecond, l.ofLimit(), l.WritesPerTrip,
			l.Register, l.Decide, l.DecisionToStart, l.ToolToContinuation)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nTimes are p50/p99 in ms. A write is a transaction id that was used.")
	if len(r.Limits) == 0 {
		return nil
	}
	fmt.Fprintln(w, "L is what pgbench reached here, now:")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "clients\trmw/s\tinsert/s\tL\t")
	for _, l := range r.Limits {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.0f\t\n", l.Clients, l.RMW, l.Insert, l.PerSecond)
	}
	return t.Flush()
}

// String gives "p50/p99".
func (q Quantile) String() string { return fmt.Sprintf("%.1f/%.1f", q.P50, q.P99) }

func (l Level) ofLimit() string {
	if l.LimitClients == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f L(%d)", l.OfLimit, l.LimitClients)
}
