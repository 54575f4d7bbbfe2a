package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every test that the table of faults names is there.
func TestTheTableNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/faults.md")
	must(t, err)
	table, _, _ := strings.Cut(string(text), "\n## ")
	var there []string
	must(t, filepath.WalkDir("../..", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			there = append(there, name[1])
		}
		return err
	}))
	named := regexp.MustCompile(`\bTest[A-Z]\w+…?`).FindAllString(table, -1)
	if len(named) < 20 {
		t.Errorf("the table names %d tests", len(named))
	}
	for _, name := range named {
		begin, short := strings.CutSuffix(name, "…")
		known := func(test string) bool { return test == name || short && strings.HasPrefix(test, begin) }
		if !slices.ContainsFunc(there, known) {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
}
