package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// writeTimeout bounds one message to a server that does not read: a
	// pipe's buffer is emptied in microseconds by one that does.
	writeTimeout = 5 * time.Second
	// exitTime is what a server gets to end after its input was closed, and
	// again after SIGTERM.
	exitTime = time.Second
)

// process is a server that talks over its standard input and output. It is
// the transport and the stream in one.
type process struct {
	command []string
	env     map[string]string
	life    context.Context // of the session; its end ends the process
	ended   func()          // called when the process's output ends

	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr tail
	gone   chan struct{} // closed when its output ended
	once   struct{ gone, close sync.Once }
}

// Connect starts the process.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	if err := p.start(); err != nil {
		return nil, err
	}
	context.AfterFunc(p.life, func() { _ = p.Close() })
	conn, err := (&sdk.IOTransport{Reader: p, Writer: writeEnd{p}, MaxLineLength: maxAnswerBytes}).Connect(ctx)
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	return &tapConn{Connection: conn, waiting: map[jsonrpc.ID]*flight{}}, nil
}

func (p *process) start() error {
	childIn, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return errors.Join(err, childIn.Close(), stdin.Close())
	}
	defer childIn.Close()
	defer childOut.Close()
	p.stdin, p.stdout, p.gone = stdin, stdout, make(chan struct{})
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that all of it can be ended
	p.cmd.WaitDelay = exitTime
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	for name, value := range p.env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	if err := p.cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the server's command: %w", err), stdin.Close(), stdout.Close())
	}
	return nil
}

func (p *process) Read(b []byte) (int, error) {
	n, err := p.stdout.Read(b)
	if err != nil {
		p.once.gone.Do(func() {
			close(p.gone)
			p.ended() // before anybody learns of it by an unanswered call
		})
	}
	return n, err
}

// writeEnd is the stream's other half; the process is ended by its reader.
type writeEnd struct{ p *process }

func (w writeEnd) Write(b []byte) (int, error) {
	if err := w.p.stdin.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return w.p.stdin.Write(b)
}

func (writeEnd) Close() error { return nil }

// Close ends the process and everything it started: its input is closed, then
// SIGTERM, then SIGKILL. The leader is reaped last, so that its group's
// number cannot become another's meanwhile.
func (p *process) Close() error {
	p.once.close.Do(func() {
		_ = p.stdin.Close()
		go func() { _, _ = io.Copy(io.Discard, p) }() // nobody else may be reading any more
		if p.life.Err() != nil || !p.wait() {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
			p.wait()
		}
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Wait()
		_ = p.stdout.Close()
	})
	return nil
}

func (p *process) wait() bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(exitTime):
		return false
	}
}

// tail keeps the end of what a server writes to its standard error, for the
// message that says why it could not be used.
type tail struct {
	mu   sync.Mutex
	last []byte
}

const tailBytes = 500

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if extra := len(t.last) - tailBytes; extra > 0 {
		t.last = append([]byte(nil), t.last[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
