package testcluster

import (
	"syscall"
	"testing"

	"github.com/countersign/countersign/internal/cluster"
)

// Service is a process that fails its test where it cannot do what it is told.
type Service struct {
	*cluster.Process
	t *testing.T
}

// Start starts it, or starts it again; env is added for this start and every
// later one.
func (s *Service) Start(env ...string) {
	s.t.Helper()
	must(s.t, s.Process.Start(env...))
}

// Signal sends a signal and does not wait.
func (s *Service) Signal(signal syscall.Signal) {
	s.t.Helper()
	must(s.t, s.Process.Signal(signal))
}

// Kill ends it as a power cut would.
func (s *Service) Kill() {
	s.t.Helper()
	must(s.t, s.Process.Kill())
}

// Ready waits until it can do its work.
func (s *Service) Ready() {
	s.t.Helper()
	Eventually(s.t, s.Name+" is ready", s.Process.Ready)
}
