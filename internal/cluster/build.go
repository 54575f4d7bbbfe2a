package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Services are the names of the programs, and of what [Build] makes.
var Services = []string{"api", "worker", "continuer"}

// Build makes the three services in a folder, with build tags: the fail points
// are compiled in by one, known bugs by others. Other packages of the module,
// named from its root, are built beside them.
func Build(ctx context.Context, dir string, tags []string, others ...string) error {
	args := []string{"build", "-tags", strings.Join(tags, ","), "-o", dir + string(filepath.Separator)}
	for _, service := range Services {
		args = append(args, "./services/"+service)
	}
	command := exec.CommandContext(ctx, "go", append(args, others...)...)
	command.Dir = root()
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the services: %w: %s", err, out)
	}
	return nil
}

// root is the module's folder, from which this file was compiled.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
