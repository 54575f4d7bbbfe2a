package localservers

import (
	"errors"
	"os"
	"slices"
	"syscall"
)

// Pause stops the server's processes without ending them, as a machine does
// that is suspended: its ports take connections, and nobody answers.
func (p *Postgres) Pause() error { return p.child.pause() }

// Resume lets a paused server go on where it stood.
func (p *Postgres) Resume() error { return p.child.resume() }

// Pause is as [Postgres.Pause].
func (r *Redis) Pause() error { return r.child.pause() }

// Resume is as [Postgres.Resume].
func (r *Redis) Resume() error { return r.child.resume() }

// pause stops the process first and then its children, again until it has no
// others: a process that is stopped starts none.
func (c *child) pause() error {
	if c == nil {
		return os.ErrProcessDone
	}
	if err := syscall.Kill(c.pid(), syscall.SIGSTOP); err != nil {
		return err
	}
	var paused []int
	for {
		all := childrenOf(c.pid())
		fresh := slices.DeleteFunc(slices.Clone(all), func(pid int) bool { return slices.Contains(paused, pid) })
		if len(fresh) == 0 {
			return nil
		}
		paused = append(paused, fresh...)
		if err := signalAll(fresh, syscall.SIGSTOP); err != nil {
			return err
		}
	}
}

func (c *child) resume() error {
	if c == nil {
		return os.ErrProcessDone
	}
	return signalAll(append(childrenOf(c.pid()), c.pid()), syscall.SIGCONT)
}

func signalAll(pids []int, signal syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
