package testservers

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/countersign/countersign/internal/freeport"
	"github.com/countersign/countersign/internal/localservers"
)

// natsProgram builds the nats-server of this module once per binary.
var natsProgram = sync.OnceValues(func() (string, error) {
	dir, err := Shared("nats-server")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build nats-server: %w: %s", err, out)
	}
	return filepath.Join(dir, "nats-server"), nil
})

// NATSProcess starts a server as a process of its own for one test, which may
// pause it, kill it and start it again. Program and Dir are set here.
func NATSProcess(t testing.TB, options localservers.NATSProcessOptions) *localservers.NATSProcess {
	t.Helper()
	options.Dir = Dir(t)
	return natsProcess(t, options)
}

// NATSCluster starts servers as processes that know one another.
func NATSCluster(t testing.TB, size int) []*localservers.NATSProcess {
	t.Helper()
	routes := make([]int, size)
	for i := range routes {
		routes[i] = freePort(t)
	}
	servers := make([]*localservers.NATSProcess, size)
	for i := range servers {
		own := append([]int{routes[i]}, routes[:i]...)
		servers[i] = natsProcess(t, localservers.NATSProcessOptions{
			Dir: Dir(t), Name: fmt.Sprintf("n%d", i), Routes: append(own, routes[i+1:]...)})
	}
	return servers
}

func natsProcess(t testing.TB, options localservers.NATSProcessOptions) *localservers.NATSProcess {
	t.Helper()
	program, err := natsProgram()
	if err != nil {
		t.Fatal(err)
	}
	options.Program = program
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, err := localservers.StartNATSProcess(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	closeWith(t, server.Kill)
	return server
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
