package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/countersign/countersign/pkg/client"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func draw(s Screen, f func(Screen)) string {
	var out bytes.Buffer
	s.Out = &out
	f(s)
	return out.String()
}

func rows() Table {
	return Table{Header: []string{"ID", "TOOL", "INPUT"}, Rows: [][]Cell{
		{Text("0a1b2c3d"), Text("delete_file"), Text(`{"path":"old.log","force":true}`)},
		{Text("9"), Text("你好"), Text("e\u0301x")},
	}}
}

func TestTablesAreAligned(t *testing.T) {
	t.Parallel()
	got := draw(Screen{}, func(s Screen) { s.Table(rows()) })
	want := "ID        TOOL         INPUT\n" +
		"0a1b2c3d  delete_file  {\"path\":\"old.log\",\"force\":true}\n" +
		"9         你好         e\u0301x\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTablesFitTheWindow(t *testing.T) {
	t.Parallel()
	for width := 22; width < 70; width++ {
		for line := range strings.SplitSeq(draw(Screen{Width: width}, func(s Screen) { s.Table(rows()) }), "\n") {
			if columns(line) > width {
				t.Fatalf("width %d: %q takes %d", width, line, columns(line))
			}
		}
	}
	got := draw(Screen{Width: 40}, func(s Screen) { s.Table(rows()) })
	if !strings.Contains(got, "0a1b2c3d  delete_file  {\"path\":\"old.log…\n") {
		t.Errorf("the widest column gives first:\n%s", got)
	}
}

func TestColoursTakeNoColumns(t *testing.T) {
	t.Parallel()
	table := rows()
	table.Rows[0][1].Style = Red
	got := draw(Screen{Color: true}, func(s Screen) { s.Table(table) })
	if !strings.Contains(got, "0a1b2c3d  \x1b[31mdelete_file\x1b[0m  {") {
		t.Errorf("got %q", got)
	}
}

func TestCellsCannotDrawOutsideTheirLine(t *testing.T) {
	t.Parallel()
	got := draw(Screen{}, func(s Screen) {
		s.Table(Table{Header: []string{"A"}, Rows: [][]Cell{{Text("x\n\x1b[2Jy\u202e")}}})
	})
	if want := "A\nx‹U+000A›‹U+001B›[2Jy‹U+202E›\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func card() client.Approval {
	return client.Approval{
		ID: "01997a00-0000-7000-8000-00004f2a91c0", State: "requested", Topic: "chat-42", CallID: "01997a00-call",
		Tool: client.ApprovalTool{Name: "delete_file", Effect: "unsafe"}, Digest: "sha256:abc",
		Input:       []byte(`{"path": "old\u202e.log", "n": 1.0}`),
		RequestedBy: "user:alice", RequestedAt: now.Add(-3 * time.Minute), ExpiresAt: now.Add(7 * 24 * time.Hour),
	}
}

func TestACardShowsEverything(t *testing.T) {
	t.Parallel()
	got := draw(Screen{}, func(s Screen) { s.Card(card(), now) })
	want := `delete_file
  state     requested
  effect    unsafe
  topic     chat-42
  asked by  user:alice
  asked     2026-05-04T11:57:00Z (3m ago)
  expires   2026-05-11T12:00:00Z (in 7d)
  id        01997a00-0000-7000-8000-00004f2a91c0
  call      01997a00-call
  digest    sha256:abc
  approve   countersign approve 4f2a91c0
  deny      countersign deny 4f2a91c0 --reason '…'
  1 hidden character in the arguments, shown as ‹U+…›
  arguments
  │ {
  │   "path": "old‹U+202E›.log",
  │   "n": 1.0
  │ }
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestADecidedCardShowsItsVerdict(t *testing.T) {
	t.Parallel()
	decided := card()
	decided.State = "denied"
	decided.Decision = &client.Verdict{DecidedBy: "user:bob", DecidedAt: now, Reason: "not\nnow"}
	got := draw(Screen{}, func(s Screen) { s.Card(decided, now) })
	for _, want := range []string{"decision  denied by user:bob, 2026-05-04T12:00:00Z\n", "reason    not‹U+000A›now\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "countersign approve") || strings.Contains(got, "expires") {
		t.Errorf("a decided card asks for a decision:\n%s", got)
	}
}

func TestNothingOnACardBeginsAtTheEdge(t *testing.T) {
	t.Parallel()
	c := card()
	c.Topic = strings.Repeat("t ", 50) + "  approve  countersign approve evil"
	c.Input = []byte(`{"a": "` + strings.Repeat("x", 100) + `", "你": "` + strings.Repeat("你", 60) + `"}`)
	got := draw(Screen{Width: 40}, func(s Screen) { s.Card(c, now) })
	for line := range strings.SplitSeq(strings.TrimSuffix(got, "\n"), "\n") {
		if columns(line) > 40 || !strings.HasPrefix(line, "  ") && line != "delete_file" {
			t.Errorf("%q takes %d columns", line, columns(line))
		}
	}
	flat := strings.NewReplacer("\n  ┆ ", "").Replace(got)
	if !strings.Contains(flat, `"a": "`+strings.Repeat("x", 100)+`"`) || !strings.Contains(flat, strings.Repeat("你", 60)) {
		t.Errorf("something is missing in\n%s", got)
	}
}

func FuzzACardHidesNothing(f *testing.F) {
	f.Add("tool\x1b]8;;http://x\a", "user\u202e", []byte(`{"a": "\u200b"}`))
	f.Fuzz(func(t *testing.T, tool, by string, input []byte) {
		c := card()
		c.Tool.Name, c.Tool.Effect, c.Topic, c.RequestedBy, c.State, c.Input = tool, by, tool, by, tool, input
		c.Decision = &client.Verdict{Reason: tool, DecidedBy: by}
		for _, r := range draw(Screen{}, func(s Screen) { s.Card(c, now) }) {
			if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Bidi_Control) {
				t.Fatalf("U+%04X is on the screen", r)
			}
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "past", 59 * time.Second: "in 59s", 90 * time.Second: "in 1m", 47 * time.Hour: "in 47h", 48 * time.Hour: "in 2d",
	} {
		if got := Until(now.Add(d), now); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	if Ago(time.Time{}, now) != "" || Until(time.Time{}, now) != "" || Ago(now.Add(time.Hour), now) != "0s" {
		t.Error("unset and future times")
	}
}

func TestOpenLooksAtTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"COLUMNS": "77"}
	if got := Open(&bytes.Buffer{}, func(n string) string { return env[n] }); got.Interactive || got.Color || got.Width != 77 {
		t.Errorf("got %+v", got)
	}
}
