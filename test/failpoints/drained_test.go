package failpoints

import (
	"context"
	"errors"
	"syscall"

	"github.com/countersign/countersign/internal/cluster"
)

// drainedWorker is a worker that is told to stop while it runs a call.
var drainedWorker = flow{name: "drained", normal: once, run: drainWorker, goOn: answer}

// drainWorker has the armed worker run a call, since the other one is away,
// and tells it to stop when the other one is there again.
func drainWorker(u *unit) error {
	other := u.stage.Workers[1].Process
	if err := other.Stop(syscall.SIGTERM); err != nil {
		return err
	}
	sent := func(context.Context) error {
		if n, _ := u.stage.ledger.times(u.call); n == 0 {
			return errors.New("it is not")
		}
		return nil
	}
	err := errors.Join(talk("slow")(u), u.until("the tool is called", sent), u.stage.armed("worker").Signal(syscall.SIGTERM))
	return errors.Join(err, other.Start(), cluster.Poll(u.ctx, other.Ready))
}
