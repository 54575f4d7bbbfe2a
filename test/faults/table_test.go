package faults

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that the table of faults names is there.
func TestTheTableNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reliability.md")
	must(t, err)
	_, table, found := strings.Cut(string(text), "\n## The faults, by number\n")
	if !found {
		t.Fatal("docs/reliability.md has no table of faults")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	there := map[string]bool{}
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
			there[name[1]] = true
		}
		return err
	}))
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(table, -1)
	if len(named) < 20 {
		t.Errorf("the table names %d tests", len(named))
	}
	for _, name := range named {
		if !there[name] {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
}
