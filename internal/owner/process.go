package owner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process names a running process for a person.
type Process struct {
	PID int
	// Command is the program's base name and, when it looks like a
	// subcommand, its first argument. Further arguments are left out: they
	// may hold secrets. Empty when the system does not tell.
	Command string
}

// String is "pid 4711 (countersign dev)".
func (p Process) String() string {
	if p.Command == "" {
		return fmt.Sprintf("pid %d", p.PID)
	}
	return fmt.Sprintf("pid %d (%s)", p.PID, p.Command)
}

// Of describes the process with this id as far as /proc tells.
func Of(pid int) Process {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return Process{PID: pid}
	}
	return Process{PID: pid, Command: command(line)}
}

func command(cmdline []byte) string {
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	// Programs that rewrite their title (Postgres, Redis) put all of it into
	// the first argument.
	name, _, _ := strings.Cut(args[0], " ")
	name = filepath.Base(name)
	if len(args) > 1 && isSubcommand(args[1]) {
		name += " " + args[1]
	}
	return name
}

func isSubcommand(arg string) bool {
	if arg == "" || len(arg) > 20 {
		return false
	}
	return strings.Trim(arg, "abcdefghijklmnopqrstuvwxyz-") == "" && arg[0] != '-'
}
