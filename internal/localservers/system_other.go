//go:build unix && !linux

package localservers

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent cannot be had here: what a killed parent leaves behind is
// stopped by the next start on the same folder.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// runsIn says whether the process lives and is a server of this folder.
func runsIn(pid int, dir string) bool {
	command, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(command), dir)
}

// childrenOf is not known here: a server's children notice its death.
func childrenOf(int) []int { return nil }
