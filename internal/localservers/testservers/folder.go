package testservers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/owner"
)

const folderPattern = "countersign-test-"

// A folder is a temporary folder that is recognized as left behind when its
// process has died without removing it: its lock is free then.
type folder struct {
	path string
	held *owner.Folder
}

// newFolder makes a folder that Postgres's unprivileged user may enter, which
// testing's own temporary folders do not allow. It first removes what killed
// test binaries left behind.
func newFolder() (*folder, error) {
	removeAbandoned()
	path, err := os.MkdirTemp("", folderPattern)
	if err != nil {
		return nil, err
	}
	held, err := owner.Hold(path)
	if err != nil {
		return nil, err
	}
	return &folder{path: path, held: held}, os.Chmod(path, 0o755)
}

func (f *folder) remove() error {
	return errors.Join(os.RemoveAll(f.path), f.held.Release())
}

// removeAbandoned removes folders whose lock is free. A young one may be just
// being made by another binary.
func removeAbandoned() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPattern+"*"))
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		if held, err := owner.Hold(path); err == nil {
			_ = os.RemoveAll(path)
			_ = held.Release()
		}
	}
}

// Dir makes a folder for a server of one test, removed with the test.
func Dir(t testing.TB) string {
	t.Helper()
	f, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	})
	// Below the lock: a server takes a lock of its own on its folder.
	dir := filepath.Join(f.path, "server")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Shared makes a folder for what all tests of a binary use, such as a program
// that they build once; [Main] removes it.
func Shared(name string) (string, error) {
	dir, err := sharedFolder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}
