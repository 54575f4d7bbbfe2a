package localservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputGrace bounds the wait for a dead server's own children, which hold
// its output open until they die too: Postgres's backends notice within
// milliseconds.
const outputGrace = 10 * time.Second

// A child is one running server process.
type child struct {
	cmd  *exec.Cmd
	tail *tail
	// gone is closed when the process and whoever shares its output are gone;
	// err, set before, is how it ended.
	gone chan struct{}
	err  error
}

// startChild runs the command with dies as the signal that the kernel sends
// it when this process dies.
//
// Linux sends that signal when the starting *thread* ends, and Go ends
// threads as it likes. So the thread is locked to a goroutine that lives as
// long as the child.
func startChild(cmd *exec.Cmd, dies syscall.Signal, output *tail) (*child, error) {
	cmd.Stdout, cmd.Stderr = output, output
	cmd.WaitDelay = outputGrace
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A group of its own: Ctrl-C on the terminal reaches this process alone,
	// which stops its servers last.
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, dies)

	c := &child{cmd: cmd, tail: output, gone: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.gone)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) alive() bool {
	select {
	case <-c.gone:
		return false
	default:
		return true
	}
}

// ending says how a child that is gone ended.
func (c *child) ending() string {
	if c.err == nil {
		return "exit status 0"
	}
	return c.err.Error()
}

// whileAlive ends a wait for the child's answer when the child dies: the port
// may belong to another server, which answers in its own time or never.
func (c *child) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.gone:
			cancel(fmt.Errorf("it ended at once: %s", c.ending()))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// goneOf is closed when the child is gone, or was never there.
func goneOf(c *child) <-chan struct{} {
	if c != nil {
		return c.gone
	}
	never := make(chan struct{})
	close(never)
	return never
}

// A step of stopping: a signal and how long it may take to work.
type step struct {
	signal os.Signal
	within time.Duration
}

// stop sends the signals in order until the child is gone. Needing more than
// the first is an error, though the child is gone by then.
func (c *child) stop(steps ...step) error {
	if !c.alive() {
		return fmt.Errorf("%s ended by itself: %s\n%s", c.cmd.Path, c.ending(), c.tail)
	}
	for i, s := range append(steps, step{syscall.SIGKILL, outputGrace * 2}) {
		if err := c.cmd.Process.Signal(s.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", c.cmd.Path, err)
		}
		select {
		case <-c.gone:
			if i > 0 {
				return fmt.Errorf("%s did not stop within %v and was ended by %v\n%s",
					c.cmd.Path, steps[0].within, s.signal, c.tail)
			}
			return nil
		case <-time.After(s.within):
		}
	}
	return fmt.Errorf("%s (pid %d) cannot be ended", c.cmd.Path, c.pid())
}

// kill ends the child and its own children without giving them a chance, and
// waits until they are gone.
func (c *child) kill() error {
	if c.alive() {
		// The child first: it would look into the deaths of its children.
		for _, pid := range append([]int{c.pid()}, childrenOf(c.pid())...) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill %s (pid %d): %w", c.cmd.Path, pid, err)
			}
		}
	}
	select {
	case <-c.gone:
		return nil
	case <-time.After(outputGrace * 2):
		return fmt.Errorf("%s (pid %d) cannot be killed", c.cmd.Path, c.pid())
	}
}
