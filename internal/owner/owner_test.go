package owner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

func TestAListeningPortNamesThisProcess(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "localhost", ""} {
		if process, found := Port(host, port); !found || process.PID != os.Getpid() || process.Command == "" {
			t.Errorf("Port(%q) = %v, %v; want this process, pid %d", host, process, found, os.Getpid())
		}
	}
	for _, host := range []string{"127.0.0.2", "::1"} {
		if process, found := Port(host, port); found {
			t.Errorf("Port(%q) = %v; nobody is in the way there", host, process)
		}
	}
}

func TestACommandLeavesOutItsArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"/usr/bin/countersign\x00dev\x00--key\x00secret\x00": "countersign dev",
		"/usr/bin/psql\x00postgres://u:p@h/d\x00":            "psql",
		"redis-server 127.0.0.1:6379\x00\x00\x00":            "redis-server",
		"go\x00--token=x\x00":                                "go",
	} {
		if got := command([]byte(line)); got != want {
			t.Errorf("command(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestAHeldFolderNamesItsHolderUntilItIsReleased(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Hold(dir)
	if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("second Hold = %v, want ErrTaken naming pid %d", err, os.Getpid())
	}
	if err := folder.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Hold(dir)
	if err != nil {
		t.Fatalf("Hold after Release = %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}
