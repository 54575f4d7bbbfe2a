package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/countersign/countersign/internal/cluster"
)

// Node is one process of the site. It is safe for concurrent use, and knows
// whether it is meant to run, so that an end that nobody asked for is seen.
type Node struct {
	Name string // api-0, natsserver

	mu      sync.Mutex
	process *cluster.Process
	paused  bool
	mayEnd  bool // a tool that kills itself is no surprise
	ends    int
}

func newNode(dir, service, name string, env ...string) (*Node, error) {
	process, err := cluster.New(dir, service, env...)
	if err != nil {
		return nil, err
	}
	return &Node{Name: name, process: process}, nil
}

// URL is where it answers.
func (n *Node) URL() string { return n.process.URL }

// Address is host and port of it.
func (n *Node) Address() string { return n.process.URL[len("http://"):] }

// Start starts it if it does not run.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process.Running() && !n.process.Ended() {
		return nil
	}
	return n.process.Start()
}

// Stop ends it by a signal and waits; the error says that it ended badly.
func (n *Node) Stop(signal syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused {
		_ = n.process.Signal(syscall.SIGCONT)
		n.paused = false
	}
	return n.process.Stop(signal)
}

// Pause stops its time.
func (n *Node) Pause() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused = true
	return n.process.Signal(syscall.SIGSTOP)
}

// Resume lets it go on; one that does not run is started.
func (n *Node) Resume() error {
	n.mu.Lock()
	if n.process.Running() && !n.process.Ended() {
		defer n.mu.Unlock()
		if !n.paused {
			return nil
		}
		n.paused = false
		return n.process.Signal(syscall.SIGCONT)
	}
	n.paused = false
	n.mu.Unlock()
	return n.Start()
}

// Ready waits until it can do its work, or ctx ends.
func (n *Node) Ready(ctx context.Context) error {
	if err := cluster.Poll(ctx, n.process.Ready); err != nil {
		return fmt.Errorf("%s: %w\n%s", n.Name, err, n.process.Log.Tail(10))
	}
	return nil
}

// Surprise starts it again when it has ended by itself, and says so.
func (n *Node) Surprise() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.process.Ended() {
		return nil
	}
	err := n.process.Wait()
	n.ends++
	if startErr := n.process.Start(); startErr != nil {
		return startErr
	}
	if n.mayEnd {
		return nil
	}
	return errors.Join(fmt.Errorf("%s ended by itself\n%s", n.Name, n.process.Log.Tail(20)), err)
}

// Said tells whether it ever wrote a text.
func (n *Node) Said(text string) bool { return n.process.Log.Contains(text) }

// keepLog writes what it said into a folder.
func (n *Node) keepLog(dir string) error {
	return os.WriteFile(filepath.Join(dir, n.Name+".log"), []byte(n.process.Log.Tail(1<<20)), 0o644)
}
