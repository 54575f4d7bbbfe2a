package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/countersign/countersign/cmd/countersign/terminal"
	"github.com/countersign/countersign/pkg/client"
)

// unknown gives a call that was claimed and of which its caller says that
// nobody knows whether it happened.
func (s *system) unknown(topic, path string) client.Call {
	s.t.Helper()
	card := s.ask(topic, path)
	must(s.t, second(s.backend.Decide(s.t.Context(), card.ID, client.Decision{Approved: true})))
	claim, err := s.backend.ClaimCall(s.t.Context(), card.CallID, client.ClaimRequest{})
	must(s.t, err)
	must(s.t, second(s.backend.ResultCall(s.t.Context(), card.CallID, client.Result{Fence: claim.Fence, Token: claim.Token, Unknown: true})))
	call, err := s.backend.Call(s.t.Context(), card.CallID)
	must(s.t, err)
	return call
}

// outlive lets the time pass in which attempts of unknown outcome may be
// alive.
func (s *system) outlive() {
	s.t.Helper()
	must(s.t, second(s.rows().ExecContext(s.t.Context(), `update calls set lease_until = lease_until - interval '1 hour' where run = 'outcome-unknown'`)))
}

// An operator finds the calls of unknown outcome in the inbox, looks at one,
// and says what became of it.
func TestAnUnknownOutcomeIsFoundShownAndResolved(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	call := s.unknown("chat-42", "old.log")
	short := terminal.ShortID(call.ID)

	s.command("inbox", "--no-json").requireOut(t, exitOK, "nothing waits for a decision", "countersign resolve", short, "delete_file", "chat-42")
	var inbox struct {
		Items          []json.RawMessage
		NeedsAttention []client.Call
	}
	s.command("inbox").decode(t, exitOK, &inbox)
	if len(inbox.Items) != 0 || len(inbox.NeedsAttention) != 1 || inbox.NeedsAttention[0].ID != call.ID {
		t.Errorf("the inbox: %+v", inbox)
	}
	if other := s.command("inbox", "--tool", "other", "--no-json"); strings.Contains(other.out, short) {
		t.Errorf("the inbox of another tool: %s", other.out)
	}
	s.command("resolve", "--no-json").requireOut(t, exitOK, short, "unsafe", "in 5", "does not know")
	s.command("resolve", short, "--no-json").requireOut(t, exitOK, call.ID, "outcome-unknown", "attempt 1", "key:", "unknown after", "earliest",
		"countersign resolve "+short+" --happened --evidence", `"path": "old.log"`)

	s.command("resolve", short, "--closed").requireErr(t, exitConflict, "attempt-may-be-alive", "try again in")
	s.outlive()
	done := s.command("resolve", short, "--happened", "--evidence", "the file is gone", "--as", "user:bob", "--no-json")
	done.requireOut(t, exitOK, "resolved as happened: delete_file ("+short+") in chat-42, by user:bob", "continuing")
	s.command("resolve", call.ID, "--happened", "--evidence", "me too", "--no-json").requireOut(t, exitOK, "resolved already as happened", "user:bob")
	s.command("resolve", call.ID, "--closed").requireErr(t, exitConflict, "already-resolved", "user:bob resolved it as happened")
	s.command("resolve", call.ID, "--no-json").requireOut(t, exitOK, "happened by user:bob", "the file is gone")
	s.command("resolve", "--no-json").requireOut(t, exitOK, "no call's outcome is unknown")

	now, err := s.backend.Call(t.Context(), call.ID)
	must(t, err)
	if now.Run != "succeeded" || now.Resolution.Channel != "cli" {
		t.Errorf("the call: %s", now.Raw)
	}
}

// The output that a person has is read from a file or from standard input.
func TestAPersonsOutputIsTheCalls(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	call := s.unknown("chat-42", "old.log")
	s.outlive()
	p := quiet()
	p.in = strings.NewReader(`{"deleted": true}`)
	args := []string{"resolve", "--url", s.url, "--key", s.key, call.ID, "--happened", "--evidence", "seen", "--output", "-"}
	if code := run(t.Context(), args, p); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	now, err := s.backend.Call(t.Context(), call.ID)
	must(t, err)
	if !strings.Contains(string(now.Raw), `"output":{"deleted":`) {
		t.Errorf("the call: %s", now.Raw)
	}
}

func TestAResolutionIsSpeltOut(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"0a1b2c3d", "--happened"}, {"--closed"}, {"0a1b2c3d", "--evidence", "x"}, {"0a1b2c3d", "--closed", "--did-not-happen"},
		{"0a1b2c3d", "--closed", "--output", "-"}, {"0a", "--closed", "--url", "http://127.0.0.1:1", "--key", "k"},
	} {
		if code := run(t.Context(), slices.Concat([]string{"resolve"}, args), quiet()); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// The card of a call that may repeat one of unknown outcome says so.
func TestAPossibleDuplicateSaysSo(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	call := s.unknown("chat-42", "old.log")
	must(t, second(s.backend.Cancel(t.Context(), "chat-42", "")))
	again := s.ask("chat-42", "old.log")
	s.command("show", again.ID, "--no-json").requireOut(t, exitOK, "possible duplicate of "+terminal.ShortID(call.ID)+" (outcome-unknown)")
}
