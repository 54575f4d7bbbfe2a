package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/pkg/client"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func paper() (output, *bytes.Buffer) {
	var out bytes.Buffer
	return output{Screen: terminal.Screen{Out: &out}}, &out
}

func waiting() client.Approval {
	return client.Approval{
		ID: "01997a00-0000-7000-8000-00004f2a91c0", State: "requested", Topic: "chat-42", RequestedBy: "user:alice",
		Tool:  client.ApprovalTool{Name: "delete_file", Effect: "unsafe"},
		Input: json.RawMessage("{\"path\": \"old.log\u202e\"}"), RequestedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour),
	}
}

func TestTheInboxIsATable(t *testing.T) {
	t.Parallel()
	out, text := paper()
	showInbox(out, []client.Approval{waiting()}, "requested", now)
	want := "ID        TOOL         EFFECT  TOPIC    BY          ASKED   EXPIRES  INPUT\n" +
		"4f2a91c0  delete_file  unsafe  chat-42  user:alice  1m ago  in 1h    {\"path\":\"old.log‹U+202E›\"}\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	text.Reset()
	showInbox(out, nil, "requested", now)
	if text.String() != "nothing waits for a decision\n" {
		t.Errorf("an empty inbox says %q", text)
	}
}

func TestTopicsAreATable(t *testing.T) {
	t.Parallel()
	out, text := paper()
	showTopics(out, []client.Topic{{ID: "chat-42", Status: "awaiting-approval", Version: 7, Turns: []client.Turn{
		{OpenApprovals: 1, OpenCalls: 2}, {OpenApprovals: 2, OpenCalls: 2}}}})
	want := "TOPIC    STATUS             VERSION  TURNS  CARDS  CALLS\nchat-42  awaiting-approval  7        2      3      4\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestEachOutcomeHasItsSentence(t *testing.T) {
	t.Parallel()
	decided := waiting()
	decided.State = "denied"
	decided.Decision = &client.Verdict{DecidedBy: "user:\x1bbob", DecidedAt: now.Add(-time.Hour)}
	for result, want := range map[string]string{
		"applied":         "denied: delete_file (4f2a91c0) in chat-42, by user:‹U+001B›bob\n",
		"already-applied": "denied already: delete_file (4f2a91c0) in chat-42, by user:‹U+001B›bob 1h ago\n",
		"recorded":        "recorded: delete_file (4f2a91c0) in chat-42 needs more approvers\n",
	} {
		out, text := paper()
		tellOutcome(out, client.DecisionAnswer{Result: result, Approval: decided}, now)
		if text.String() != want {
			t.Errorf("%s: got %q, want %q", result, text, want)
		}
	}
}

func TestJSONIsTheSameDocumentAndHarmless(t *testing.T) {
	t.Parallel()
	out, text := paper()
	card := waiting()
	card.Tool.Name = "a\u009bb<\x1b>"
	if err := out.document(card); err != nil {
		t.Fatal(err)
	}
	for _, r := range text.String() {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Errorf("U+%04X in %s", r, text)
		}
	}
	var back client.Approval
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || back.Tool.Name != card.Tool.Name {
		t.Errorf("%q came back, %v", back.Tool.Name, err)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		exitError:    {errors.New("x"), &client.Problem{Status: 404}, &client.Problem{Status: 403}},
		exitUsage:    {usagef("x")},
		exitConflict: {&client.Problem{Status: 409}, errors.Join(&client.Problem{Status: 412}), changedError{errors.New("x")}},
		exitClosed:   {&client.Problem{Status: 410}},
	} {
		for _, err := range errs {
			if got := report(quiet(), err); got != want {
				t.Errorf("%v: %d, want %d", err, got, want)
			}
		}
	}
	if report(quiet(), nil) != exitOK {
		t.Error("no error is not 0")
	}
}

func quiet() process {
	return process{getenv: func(string) string { return "" }, in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
}

func TestWrongUsageExits2AndSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := []string{"--url", "http://127.0.0.1:1", "--key", "k"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "expected one of"},
		{[]string{"deny", "4f2a91c0"}, "--reason"},
		{[]string{"inbox", "--data", dir}, "countersign dev"},
		{[]string{"inbox", "--state", "open"}, "must be one of"},
		{append([]string{"approve", "4f2a91c0", "--input", broken}, server...), "is not JSON"},
		{append([]string{"approve", "4f2a91c0", "--input", "-"}, server...), "is not JSON"},
		{append([]string{"approve", "4f2a91c0", "--input", dir + "/none"}, server...), "no such file"},
		{append([]string{"show", "4f2"}, server...), "too short"},
	} {
		p := quiet()
		if code := run(t.Context(), c.args, p); code != exitUsage {
			t.Errorf("%q: exit code %d", c.args, code)
		}
		if said := p.err.(*bytes.Buffer).String(); !strings.Contains(said, c.says) {
			t.Errorf("%q says %q", c.args, said)
		}
	}
}

func TestHelpShowsExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"inbox", "show", "approve", "deny", "watch", "topics", "redrive"} {
		p := quiet()
		if code := run(context.Background(), []string{name, "--help"}, p); code != exitOK {
			t.Errorf("%s --help: exit code %d", name, code)
		}
		if text := p.out.(*bytes.Buffer).String(); !strings.Contains(text, "Examples:\n\n    countersign "+name) {
			t.Errorf("%s --help says %s", name, text)
		}
	}
}

func TestTheServerIsFoundByTheDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := devstate.Write(dir, devstate.State{URL: "http://127.0.0.1:8787", APIKey: "cs_dev"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags people
		ok    bool
	}{
		{people{Data: dir}, true},
		{people{Data: dir, URL: "http://127.0.0.1:8787/"}, true},
		{people{Data: dir, URL: "http://elsewhere"}, false}, // the key is not for everybody
		{people{Data: dir, URL: "http://elsewhere", Key: "k"}, true},
		{people{Data: t.TempDir()}, false},
	} {
		if _, err := c.flags.connect(quiet()); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.flags, err)
		}
	}
}
