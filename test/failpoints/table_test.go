package failpoints

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/failpoint"
)

// The table of outcomes stands between these two lines.
const (
	document   = "../../docs/reliability.md"
	tableBegin = "<!-- written by: go test ./test/failpoints -run Table -update -->\n"
	tableEnd   = "<!-- end of the table of outcomes -->\n"
)

// The table says what the matrix asks for: the same points, with the same
// outcomes.
func TestTableOfOutcomes(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.FromSlash(document))
	must(t, err)
	before, rest, begins := strings.Cut(string(content), tableBegin)
	written, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", document)
	}
	want := table()
	if *update {
		must(t, os.WriteFile(filepath.FromSlash(document), []byte(before+tableBegin+want+tableEnd+after), 0o644))
		return
	}
	names := regexp.MustCompile("(?m)^\\| `[^|]*")
	if got, want := names.FindAllString(written, -1), names.FindAllString(want, -1); !slices.Equal(got, want) {
		t.Errorf("the table has the points\n%s\nthere are\n%s\nwrite it again with -update", strings.Join(got, "\n"), strings.Join(want, "\n"))
	} else if written != table() {
		t.Errorf("the table is old; write it again with -update:\n%s", table())
	}
}

func table() string {
	var out strings.Builder
	service := ""
	for _, r := range rows() {
		if r.place.Service != service {
			service = r.place.Service
			fmt.Fprintf(&out, "\n**%s**\n\n| point | the gap | kill | stop | error |\n|---|---|---|---|---|\n", service)
		}
		fmt.Fprintf(&out, "| `%s`%s | %s | %s | %s | %s |\n", r.place.Point, strings.TrimPrefix(r.name(), string(r.place.Point)),
			r.place.Gap, words(r.want("kill")), words(r.want("stop")), words(r.want("error")))
	}
	return out.String() + "\n"
}

func words(outcomes []outcome) string {
	said := make([]string, len(outcomes))
	for i, o := range outcomes {
		said[i] = string(o)
	}
	return strings.Join(said, "; or ")
}

// Every point has a line, and no line is about a point that is gone.
func TestEveryPointHasALine(t *testing.T) {
	t.Parallel()
	for p := range plans {
		if !slices.ContainsFunc(failpoint.Points(), func(place failpoint.Place) bool { return place.Point == p }) {
			t.Errorf("%s is no point", p)
		}
	}
}
