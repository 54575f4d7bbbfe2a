package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

// The kill switch says what it did, and of which tenant there is none.
func TestHaltAndResume(t *testing.T) {
	t.Setenv("COUNTERSIGN_DATABASE_URL", testservers.Database(t, nil))
	t.Setenv("COUNTERSIGN_FIRST_KEY", "")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"migrate", exitOK, "tenant default is there"},
		{"halt", exitOK, "halted"},
		{"halt", exitOK, "halted"},
		{"resume", exitOK, "resumed"},
		{"halt --tenant nobody", exitError, "tenant nobody"},
	} {
		p := quiet()
		if code := run(t.Context(), strings.Fields(c.args), p); code != c.code {
			t.Errorf("%s: exit code %d", c.args, code)
		}
		if said := p.out.(*bytes.Buffer).String() + p.err.(*bytes.Buffer).String(); !strings.Contains(said, c.says) {
			t.Errorf("%s says %q", c.args, said)
		}
	}
}
