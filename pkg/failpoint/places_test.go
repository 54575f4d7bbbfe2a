package failpoint

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// left are transactions without points, each for its reason.
var left = map[string]string{
	"ensure tenant": "it is done by the operator's command, before anything runs",
}

// Every transaction of the store has the two points around its commit, and
// every other point is hit somewhere.
func TestPointsAreWhereTheirTableSays(t *testing.T) {
	t.Parallel()
	code := source(t)
	known := map[Point]bool{}
	for _, p := range Points() {
		known[p.Point] = true
	}
	unseen := maps.Clone(known)
	transactions := regexp.MustCompile(`(?:transact|\.change|\.sweep|\.onLive)\(ctx(?:, tenant|, s\.pool|, s\.hot)?, "([^"]+)"`).FindAllStringSubmatch(code, -1)
	for _, found := range transactions {
		name := strings.ReplaceAll(found[1], " ", "-")
		if around := known[Point(name+beforeCommit)] && known[Point(name+afterCommit)]; !around && left[found[1]] == "" {
			t.Errorf("the transaction %q has no points", found[1])
		}
		delete(unseen, Point(name+beforeCommit))
		delete(unseen, Point(name+afterCommit))
	}
	if len(transactions) < 15 {
		t.Errorf("only %d transactions were found", len(transactions))
	}
	named := regexp.MustCompile(`(?m)^\s+(\w+) +Point = "([^"]+)"`).FindAllStringSubmatch(code, -1)
	for _, constant := range named {
		if strings.Contains(code, "failpoint."+constant[1]+")") {
			delete(unseen, Point(constant[2]))
		}
	}
	for p := range unseen {
		t.Errorf("%s is hit nowhere", p)
	}
}

// source is the text of everything that runs.
func source(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	root := os.DirFS("../..")
	for _, dir := range []string{"pkg", "services"} {
		err := fs.WalkDir(root, dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// The points are listed in the order of the flow, those of a service together.
func TestPointsOfAServiceStandTogether(t *testing.T) {
	t.Parallel()
	var services []string
	for _, p := range Points() {
		if len(services) == 0 || services[len(services)-1] != p.Service {
			services = append(services, p.Service)
		}
	}
	if want := []string{api, continuer, worker}; !slices.Equal(services, want) {
		t.Errorf("the services are listed as %v, want %v", services, want)
	}
}
