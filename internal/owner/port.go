package owner

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Port finds the process that listens on a TCP port of this machine. It is
// false where the system does not tell: without /proc, or when the listener
// belongs to another user and this process is not root.
func Port(port int) (Process, bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeners(table, port, sockets)
	}
	if len(sockets) == 0 {
		return Process{}, false
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, descriptor := range descriptors {
		target, err := os.Readlink(descriptor)
		if err != nil || !sockets[target] {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(descriptor, "/")[2])
		if err == nil {
			return Of(pid), true
		}
	}
	return Process{}, false
}

// listeners adds the sockets of one kernel table that listen on the port, in
// the form in which /proc/<pid>/fd links to them.
func listeners(table string, port int, sockets map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close()
	const listening, localAddress, state, inode = "0A", 1, 3, 9
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && fields[state] == listening && strings.HasSuffix(fields[localAddress], suffix) {
			sockets["socket:["+fields[inode]+"]"] = true
		}
	}
}
