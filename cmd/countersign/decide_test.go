package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

// A person finds a card, looks at it and approves it, by the beginning or the
// end of its id.
func TestACardIsFoundShownAndApproved(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	card := s.ask("chat-42", "old.log")
	s.ask("chat-43", "other.log")

	inbox := s.command("inbox", "--topic", "chat-42", "--no-json")
	inbox.requireOut(t, exitOK, terminal.ShortID(card.ID), "delete_file", "unsafe", "chat-42", "user:alice", `{"path":"old.log"}`)
	if strings.Contains(inbox.out, "chat-43") {
		t.Errorf("the inbox of one topic shows another: %s", inbox.out)
	}
	var page client.Page[client.Approval]
	s.command("inbox").decode(t, exitOK, &page)
	if len(page.Items) != 2 {
		t.Errorf("the inbox holds %d cards, want 2", len(page.Items))
	}
	short := terminal.ShortID(card.ID)
	s.command("show", short, "--no-json").requireOut(t, exitOK, card.ID, "delete_file", "old.log", "user:alice")

	approved := s.command("approve", short, "--reason", "it is old", "--as", "user:bob", "--no-json")
	approved.requireOut(t, exitOK, "old.log", "approved: delete_file ("+short+") in chat-42, by user:bob")
	after, err := s.backend.Approval(t.Context(), card.ID)
	must(t, err)
	if after.State != "approved" || after.Decision.DecidedBy != "user:bob" || after.Decision.Reason != "it is old" {
		t.Errorf("the card is %s: %+v", after.State, after.Decision)
	}
	again := s.command("approve", card.ID, "--as", "user:bob", "--no-json")
	again.requireOut(t, exitOK, "approved already")
}

// Denying has a reason, which the model is told.
func TestADenialHasItsReason(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	card := s.ask("chat-42", "old.log")
	var answer client.DecisionAnswer
	s.command("deny", card.ID, "--reason", "not on a Friday").decode(t, exitOK, &answer)
	if answer.Result != "applied" || answer.Approval.State != "denied" || answer.Approval.Decision.Reason != "not on a Friday" {
		t.Errorf("the answer is %+v", answer)
	}
	s.command("inbox", "--no-json").requireOut(t, exitOK, "nothing waits for a decision")
	s.command("inbox", "--state", "denied", "--no-json").requireOut(t, exitOK, terminal.ShortID(card.ID))
}

// What was approved is what was shown: another digest, and nothing happens.
// Another input is another digest.
func TestAnApprovalIsOfWhatWasShown(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	card := s.ask("chat-42", "old.log")
	wrong := strings.Repeat("0", 8)
	s.command("approve", card.ID, "--digest", wrong).requireErr(t, exitConflict, card.Digest, wrong)
	if now, err := s.backend.Approval(t.Context(), card.ID); err != nil || now.State != "requested" {
		t.Errorf("the card is %s, %v", now.State, err)
	}
	input := filepath.Join(t.TempDir(), "input.json")
	must(t, os.WriteFile(input, []byte(`{"path":"older.log"}`), 0o600))
	s.command("approve", card.ID, "--digest", card.Digest[:8], "--input", input, "--no-json").
		requireOut(t, exitOK, "old.log", "new arguments", "older.log")
	got, err := s.backend.CallInput(t.Context(), card.CallID)
	must(t, err)
	if string(got) != `{"path":"older.log"}` {
		t.Errorf("the call's input is %s", got)
	}
}

// Scripts tell the outcomes apart by the exit code, and are given the
// document that explains a refusal.
func TestRefusalsHaveTheirExitCodes(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	card := s.ask("chat-42", "old.log")
	s.command("approve", card.ID).requireOut(t, exitOK)
	conflict := s.command("deny", card.ID, "--reason", "too late")
	conflict.requireErr(t, exitConflict, "already-decided")
	var problem struct {
		Status   int
		Approval client.Approval
	}
	conflict.decode(t, exitConflict, &problem)
	if problem.Status != 409 || problem.Approval.State != "approved" {
		t.Errorf("the problem is %s", conflict.out)
	}

	gone := s.ask("chat-43", "old.log")
	must(t, second(s.backend.Cancel(t.Context(), "chat-43", "")))
	s.command("approve", gone.ID, "--no-json").requireErr(t, exitClosed, "cancelled")

	s.command("show", "00000000").requireErr(t, exitError, "countersign inbox")
	s.command("inbox", "--key", "cs_wrong").requireErr(t, exitError, "COUNTERSIGN_API_KEY")
	s.command("topics", "--url", "http://127.0.0.1:1").requireErr(t, exitError, "127.0.0.1:1")
}

func TestTopicsAreListedWithWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	s.ask("chat-42", "old.log")
	done := s.ask("chat-43", "old.log")
	must(t, second(s.backend.Cancel(t.Context(), done.Topic, "")))
	s.eventually("the projection is there", func() error {
		if listed := s.command("topics", "--no-json"); !strings.Contains(listed.out, "chat-42") || !strings.Contains(listed.out, "aborted") {
			return errorText(listed.out)
		}
		return nil
	})
	waiting := s.command("topics", "--status", "awaiting-approval", "--no-json")
	waiting.requireOut(t, exitOK, "chat-42", "awaiting-approval")
	if strings.Contains(waiting.out, "chat-43") {
		t.Errorf("a topic that waits for nothing is listed: %s", waiting.out)
	}
	var page client.Page[client.Topic]
	s.command("topics", "chat-43", "--json").decode(t, exitOK, &page)
	if len(page.Items) != 1 || page.Items[0].Status != "aborted" {
		t.Errorf("topics: %+v", page.Items)
	}
	s.command("redrive", "--no-json").requireOut(t, exitOK, "no continuation has failed")
}

// What a model wrote cannot move a person's cursor, hide text or reorder it.
func TestControlCharactersAreShownEscaped(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	card := s.ask("chat-42", "old\x1b[2K\u202egol.\u200b\r\n")
	for _, args := range [][]string{
		{"inbox", "--no-json"}, {"show", card.ID, "--no-json"}, {"approve", card.ID, "--no-json"},
		{"inbox", "--state", "approved", "--no-json"}, {"show", card.ID}, {"inbox", "--state", "approved"},
	} {
		got := s.command(args...)
		if got.code != exitOK {
			t.Fatalf("%q: exit code %d: %s", args, got.code, got.err)
		}
		for _, r := range "\x1b\u202e\u200b\r" {
			if strings.ContainsRune(got.out, r) {
				t.Errorf("%q prints U+%04X: %q", args, r, got.out)
			}
		}
	}
	var back client.Approval
	s.command("show", card.ID, "--json").decode(t, exitOK, &back)
	var input struct{ Path string }
	must(t, json.Unmarshal(back.Input, &input))
	if input.Path != "old\x1b[2K\u202egol.\u200b\r\n" {
		t.Errorf("the document's input is %q", input.Path)
	}
}

// A watch tells what waits already, then each card and decision, until it is
// interrupted.
func TestAWatchSeesEachChange(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	first := s.ask("chat-42", "old.log")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	lines := &lines{}
	p := quiet()
	p.out = lines
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"watch", "--json", "--url", s.url, "--key", s.key}, p) }()

	lines.await(s, first.ID, "requested")
	second := s.ask("chat-43", "new.log")
	lines.await(s, second.ID, "requested")
	s.command("deny", first.ID, "--reason", "no").requireOut(t, exitOK)
	lines.await(s, first.ID, "denied")
	interrupt()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d: %s", code, p.err)
	}
}

// lines collects a stream of JSON lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// await waits for the event of a card in a state.
func (l *lines) await(s *system, card, state string) {
	s.t.Helper()
	s.eventually(card+" is "+state, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for decoder := json.NewDecoder(strings.NewReader(l.text.String())); ; {
			var event struct{ Approval client.Approval }
			if err := decoder.Decode(&event); err == io.EOF {
				return errorText(l.text.String())
			} else if err != nil {
				return err
			}
			if event.Approval.ID == card && event.Approval.State == state {
				return nil
			}
		}
	})
}

type errorText string

func (e errorText) Error() string { return string(e) }

func (s said) requireOut(t *testing.T, code int, words ...string) {
	t.Helper()
	s.require(t, code, s.out, words)
}

func (s said) requireErr(t *testing.T, code int, words ...string) {
	t.Helper()
	s.require(t, code, s.err, words)
}

func (s said) require(t *testing.T, code int, text string, words []string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit code %d, want %d: %s%s", s.code, code, s.out, s.err)
	}
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in:\n%s", word, text)
		}
	}
}

// decode reads the one JSON document that was printed.
func (s said) decode(t *testing.T, code int, v any) {
	t.Helper()
	if s.code != code {
		t.Fatalf("exit code %d, want %d: %s", s.code, code, s.err)
	}
	decoder := json.NewDecoder(strings.NewReader(s.out))
	if err := decoder.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, s.out)
	}
	if decoder.More() {
		t.Errorf("more than one document in %s", s.out)
	}
}
