package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/countersign/countersign/internal/freeport"
)

// listens names the setting by which each service is told its address.
var listens = map[string]string{
	"api":       "COUNTERSIGN_LISTEN",
	"worker":    "COUNTERSIGN_WORKER_LISTEN",
	"continuer": "COUNTERSIGN_CONTINUER_LISTEN",
	// The tool that knows what it did, of test/nemesis.
	"toolserver": "TOOLSERVER_LISTEN",
	"natsserver": "NATSSERVER_LISTEN",
}

// Process is one service, which can be started again after it ended, at the
// same address with the same settings. Its methods are not for concurrent use.
type Process struct {
	Name string // api, worker, continuer
	URL  string // where it answers: http://127.0.0.1:port
	Log  *Output

	program string
	env     []string
	running *exec.Cmd
	ended   chan error
}

// New gives a service out of a folder that [Build] filled, not started yet, at
// an address of its own. env is KEY=VALUE, of which the last one counts; it is
// added to this process's own environment.
func New(dir, service string, env ...string) (*Process, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	p := &Process{Name: service, URL: "http://" + address, Log: &Output{}, program: filepath.Join(dir, service)}
	p.env = append(append(os.Environ(), env...), listens[service]+"="+address)
	return p, nil
}

// Start starts it and does not wait until it is ready. Settings given here are
// added for this start and every later one.
func (p *Process) Start(env ...string) error {
	p.env = append(p.env, env...)
	command := exec.Command(p.program)
	command.Env, command.Stdout, command.Stderr = p.env, p.Log, p.Log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The kernel sends the signal when the starting thread ends, so this
		// one is kept as long as the process lives. It is given back then: a
		// goroutine that ends without takes its thread along, and with it
		// whatever else was ever started from that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.running, p.ended = command, ended
	return nil
}

// Running tells whether it was started and nobody has waited for its end.
func (p *Process) Running() bool { return p.running != nil }

// Ended tells, without waiting, whether a process that was started is gone;
// [Process.Wait] then says how.
func (p *Process) Ended() bool { return p.running != nil && len(p.ended) > 0 }

// PID is the process's number; 0 while it does not run.
func (p *Process) PID() int {
	if p.running == nil {
		return 0
	}
	return p.running.Process.Pid
}

// Signal sends a signal and does not wait.
func (p *Process) Signal(signal syscall.Signal) error {
	if p.running == nil {
		return os.ErrProcessDone
	}
	return p.running.Process.Signal(signal)
}

// Stop sends a signal and waits for the end; nil when it does not run. A
// process that SIGKILL ended is not an error.
func (p *Process) Stop(signal syscall.Signal) error {
	if p.running == nil {
		return nil
	}
	_ = p.running.Process.Signal(signal)
	return p.Wait()
}

// Kill ends it as a power cut would.
func (p *Process) Kill() error { return p.Stop(syscall.SIGKILL) }

// Wait waits for the end of a process that was told to end, or ends itself.
func (p *Process) Wait() error {
	if p.running == nil {
		return nil
	}
	err := <-p.ended
	p.running = nil
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", p.Name, err, p.Log.Tail(5))
	}
	return nil
}

// Ready asks once whether it can do its work now.
func (p *Process) Ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not ready: status %d", p.Name, response.StatusCode)
	}
	return nil
}
