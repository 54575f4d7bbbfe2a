package owner

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port finds the process that listens on a TCP port of this machine, at a host
// ("127.0.0.1") or at all of them; a host that is no address stands for any. It
// is false where the system does not tell: without /proc, or when the listener
// belongs to another user and this process is not root.
func Port(host string, port int) (Process, bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeners(table, host, port, sockets)
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

// listeners adds the sockets of one kernel table that are in the way of the
// address, in the form in which /proc/<pid>/fd links to them.
func listeners(table, host string, port int, sockets map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close()
	const listening, localAddress, state, inode = "0A", 1, 3, 9
	wanted := hexadecimal(host)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode || fields[state] != listening {
			continue
		}
		at, on, _ := strings.Cut(fields[localAddress], ":")
		every := strings.Trim(at, "0") == ""
		if on == fmt.Sprintf("%04X", port) && (every || wanted == "" || at == wanted) {
			sockets["socket:["+fields[inode]+"]"] = true
		}
	}
}

// hexadecimal is an address as the kernel's tables have it: in words of four
// bytes, each of them from its last byte to its first. "" stands for any.
func hexadecimal(host string) string {
	ip := net.ParseIP(host)
	if ip == nil || ip.IsUnspecified() {
		return ""
	}
	if four := ip.To4(); four != nil {
		ip = four
	}
	var out strings.Builder
	for word := range slices.Chunk(ip, 4) {
		fmt.Fprintf(&out, "%02X%02X%02X%02X", word[3], word[2], word[1], word[0])
	}
	return out.String()
}
