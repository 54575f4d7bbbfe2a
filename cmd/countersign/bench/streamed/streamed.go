package streamed

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"
)

// Options say what to measure.
type Options struct {
	Open     int           // windows, each on a live turn of its own
	Speaking int           // of these turns, how many speak
	Rate     int           // chunks per second of each that speaks
	For      time.Duration // how long they speak
	Resume   int           // chunks of the message that is told again
	Progress io.Writer
	Log      *slog.Logger
}

// Report is what one run measured.
type Report struct {
	Open           int     `json:"open"`
	Speaking       int     `json:"speaking"`
	Sent           int     `json:"chunksSent"`
	Received       int     `json:"chunksReceived"`
	PerSecond      float64 `json:"chunksPerSecond"`
	DelayP50       float64 `json:"delayP50Ms"`
	DelayP99       float64 `json:"delayP99Ms"`
	Writes         int64   `json:"writeTransactions"` // all of them are renewals of leases
	HeapBefore     uint64  `json:"heapBeforeBytes"`
	HeapOpen       uint64  `json:"heapOpenBytes"`
	HeapAfter      uint64  `json:"heapAfterBytes"`
	ResumedChunks  int     `json:"resumedChunks"`
	ResumedSeconds float64 `json:"resumedSeconds"`
}

// Run measures on servers of its own, which it removes.
func Run(ctx context.Context, o Options) (r Report, err error) {
	n, err := start(ctx, o.Log)
	if err != nil {
		return r, err
	}
	defer n.stop()
	r.Open, r.Speaking, r.HeapBefore = o.Open, min(o.Speaking, o.Open), heap()
	fmt.Fprintf(o.Progress, "opening %d streams …\n", o.Open)
	all, err := n.open(ctx, o.Open)
	if err != nil {
		return r, err
	}
	r.HeapOpen = heap()
	fmt.Fprintf(o.Progress, "%d of them speak, %d chunks a second each, for %s …\n", r.Speaking, o.Rate, o.For)
	if err := n.speak(ctx, all[:r.Speaking], o, &r); err != nil {
		return r, err
	}
	r.HeapAfter = heap()
	fmt.Fprintf(o.Progress, "telling a message of %d chunks again …\n", o.Resume)
	r.ResumedChunks = o.Resume
	took, err := n.resume(ctx, o.Resume)
	r.ResumedSeconds = took.Seconds()
	return r, err
}

// heap is what is in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// Print draws the report.
func (r Report) Print(w io.Writer) error {
	mib := func(n uint64) float64 { return float64(n) / (1 << 20) }
	_, err := fmt.Fprintf(w, `%d streams open on one node, %d speaking
chunks            %d sent, %d received, %.0f per second
chunk delay       p50 %.1f ms, p99 %.1f ms
write commits     %d, %.4f per chunk (the turns' leases, every 10 s)
memory            %.0f MiB before, %.0f MiB with all open (%.0f KiB each, client included), %.0f MiB after
told again        %d chunks in %.2f s
`, r.Open, r.Speaking, r.Sent, r.Received, r.PerSecond, r.DelayP50, r.DelayP99, r.Writes, float64(r.Writes)/float64(max(r.Sent, 1)),
		mib(r.HeapBefore), mib(r.HeapOpen), float64(r.HeapOpen-min(r.HeapOpen, r.HeapBefore))/float64(max(r.Open, 1))/1024, mib(r.HeapAfter),
		r.ResumedChunks, r.ResumedSeconds)
	return err
}
