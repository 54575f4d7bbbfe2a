package inject

import (
	"context"
	"fmt"
	"syscall"

	"github.com/countersign/countersign/test/nemesis/ledger"
	"github.com/countersign/countersign/test/nemesis/schedule"
)

// process ends or pauses one process, and brings it back.
func (i *Injector) process(ctx context.Context, f schedule.Fault) (string, error) {
	node := i.site.Node(f.Target)
	switch f.Kind {
	case schedule.Pause, schedule.NATSPause:
		if err := node.Pause(); err != nil {
			return "", err
		}
		pause(ctx, f.For)
		return "paused", node.Resume()
	case schedule.Terminate:
		if err := node.Stop(syscall.SIGTERM); err != nil {
			return "", fmt.Errorf("it did not stop cleanly: %w", err)
		}
		pause(ctx, f.For)
		return "terminated", node.Start()
	}
	if err := node.Stop(syscall.SIGKILL); err != nil {
		return "", err
	}
	pause(ctx, f.For)
	return "killed", node.Start()
}

// server ends a server as a power cut would, and starts it again.
func (i *Injector) server(ctx context.Context, f schedule.Fault) (string, error) {
	down := func() { pause(ctx, f.For) }
	switch f.Kind {
	case schedule.PostgresKill:
		return "killed", i.site.RestartPostgres(context.WithoutCancel(ctx), down)
	case schedule.RedisKill:
		return "killed", i.site.RestartRedis(context.WithoutCancel(ctx), down)
	case schedule.NATSWipe:
		return "killed, its store removed", i.site.RestartNATS(true, down)
	}
	return "killed", i.site.RestartNATS(false, down)
}

// everything that the tool can do to a caller, mostly what leaves the outcome
// in doubt.
var misbehaviour = map[ledger.Behaviour]int{
	ledger.Answer: 5, ledger.Late: 2, ledger.LateEffect: 2, ledger.Hang: 1, ledger.HangAfterEffect: 1,
	ledger.DieBeforeEffect: 1, ledger.DieAfterEffect: 1, ledger.CloseBeforeEffect: 2, ledger.CloseAfterEffect: 2,
	ledger.CloseInAnswer: 2, ledger.FailBeforeEffect: 2, ledger.FailAfterEffect: 2, ledger.Refuse: 2, ledger.Garbage: 1,
	ledger.NUL: 1, ledger.BadUTF8: 1, ledger.Huge: 1,
}

// toolFails lets the tool misbehave. What it did is asked when it is over; a
// tool that killed itself meanwhile has forgotten, and its next start is good.
func (i *Injector) toolFails(ctx context.Context, f schedule.Fault) (string, error) {
	if err := i.site.Tool.Set(ctx, ledger.Schedule{Seed: f.Seed, Weights: misbehaviour}); err != nil {
		return "", err
	}
	pause(ctx, f.For)
	fired, err := i.site.Tool.Fired(ctx)
	if err != nil {
		return "the tool killed itself", nil //nolint:nilerr // it is not there to be asked
	}
	n := 0
	for behaviour, times := range fired {
		if behaviour != ledger.Answer {
			n += times
		}
	}
	if err := i.site.Tool.Set(ctx, ledger.Schedule{}); err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("%d requests went wrong so far", n), nil
}
