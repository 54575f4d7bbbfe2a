package testservers

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// binary is what the tests of one binary share.
var binary struct {
	mu     sync.Mutex
	wraps  bool
	folder *folder
	closes []func() error
}

// Main runs the tests, stops what they shared, and exits. It never returns.
func Main(m *testing.M) {
	binary.mu.Lock()
	binary.wraps = true
	binary.mu.Unlock()
	code := m.Run()
	if err := closeShared(); err != nil {
		fmt.Fprintln(os.Stderr, "testservers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// closeShared stops the servers, the last started first, then removes their
// folder.
func closeShared() error {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	var failed error
	for i := len(binary.closes) - 1; i >= 0; i-- {
		if err := binary.closes[i](); err != nil && failed == nil {
			failed = err
		}
	}
	binary.closes = nil
	if binary.folder != nil {
		if err := binary.folder.remove(); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// share registers how a shared server is stopped.
func share(close func() error) {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	binary.closes = append(binary.closes, close)
}

// sharedFolder is the folder below which the shared servers live.
func sharedFolder() (string, error) {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	if !binary.wraps {
		return "", fmt.Errorf("nobody would stop the shared servers: " +
			"add func TestMain(m *testing.M) { testservers.Main(m) } to this package's tests")
	}
	if binary.folder == nil {
		var err error
		if binary.folder, err = newFolder(); err != nil {
			return "", err
		}
	}
	return binary.folder.path, nil
}
