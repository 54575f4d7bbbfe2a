package owner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrTaken says that another living process holds the folder.
var ErrTaken = errors.New("the folder is in use")

// A Folder is held by this process until [Folder.Release] or its death.
type Folder struct {
	file *os.File
}

// lockName is the file in a held folder that carries the lock and the
// holder's process id.
const lockName = "owner.lock"

// Hold takes an existing folder for this process alone. When another process
// has it, the error is [ErrTaken] and names that process.
func Hold(dir string) (*Folder, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("hold folder %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		defer file.Close()
		return nil, fmt.Errorf("%w: %s belongs to %s", ErrTaken, dir, holder(file))
	case err != nil:
		file.Close()
		return nil, fmt.Errorf("hold folder %s: %w", dir, err)
	}
	if err := writePID(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("hold folder %s: %w", dir, err)
	}
	return &Folder{file: file}, nil
}

// Release gives the folder back. The lock file stays: removing it would let
// two processes lock two files of the same name.
func (f *Folder) Release() error { return f.file.Close() }

func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(file *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(file, 32))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return "another process"
	}
	return Of(pid).String()
}
