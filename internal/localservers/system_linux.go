package localservers

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel send the signal to the child when the thread
// that started it ends.
func dieWithParent(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }

// runsIn says whether the process lives and works in this folder, which for
// the process named by a postmaster.pid means that it is that postmaster and
// not a later process with its number.
func runsIn(pid int, dir string) bool {
	at, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
	return err == nil && at == dir
}

// childrenOf lists the processes that the process started.
func childrenOf(pid int) []int {
	id := strconv.Itoa(pid)
	text, _ := os.ReadFile(filepath.Join("/proc", id, "task", id, "children"))
	var children []int
	for _, field := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}
