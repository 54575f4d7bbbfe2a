package store

import (
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/model"
)

// streaming opens a turn live and begins its stream.
func streaming(t *testing.T, s *Store) (*model.Turn, Streamer) {
	t.Helper()
	live := registration("t")
	live.Live = time.Minute
	turn := register(t, s, live).Turn
	w := Streamer{Turn: turn.ID, Topic: "t", Fence: turn.Live.Fence, Token: turn.Live.Token}
	begun, err := s.BeginStream(t.Context(), tenant, w, time.Minute)
	if err != nil || begun.Fence != w.Fence+1 || begun.Message != turn.Message || begun.Step != 0 {
		t.Fatalf("begin: %+v, %v", begun, err)
	}
	w.Fence = begun.Fence
	return turn, w
}

// extension is a stream's commit of calls that come after those before.
func extension(w Streamer, before int, calls ...NewCall) Extension {
	e := Extension{Streamer: w, Parts: make(Parts, 1+before+len(calls)), Calls: calls, Expiry: time.Hour, Lease: time.Minute,
		Actor: "key:test", Channel: "api"}
	e.Parts[0] = []byte(`{"type":"step-start"}`)
	for i := range calls {
		e.Calls[i].Call.Part = 1 + before + i
	}
	return e
}

func ending(w Streamer, parts Parts) Ending {
	return Ending{Turn: w.Turn, Topic: w.Topic, Fence: w.Fence, Token: w.Token, Content: sum("end"), Parts: parts, Expiry: time.Hour}
}

// Calls are committed while the turn streams. What is decided meanwhile
// stands, and the continuation waits for the stream's end (I2).
func TestI2TheContinuationWaitsForTheStreamsEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	_, w := streaming(t, s)
	first := extension(w, 0, asking(tool, "a"))
	for range 2 { // the second is a commit whose answer was lost
		out, err := s.ExtendLive(t.Context(), tenant, first)
		if err != nil || out.Turn.State() != model.TurnStreaming || len(out.Turn.Calls) != 1 {
			t.Fatalf("extend: %+v, %v", out.Turn, err)
		}
	}
	second, err := s.ExtendLive(t.Context(), tenant, extension(w, 1, allowed(tool, "b")))
	if err != nil || second.Turn.Calls[1].Run != model.RunQueued {
		t.Fatalf("an allowed call: %+v, %v", second.Turn, err)
	}
	if _, err := s.ExtendLive(t.Context(), tenant, extension(w, 2, asking(tool, "a"))); !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("a tool call id that is taken: %v", err)
	}
	for _, c := range second.Turn.Calls {
		if c.Approval != nil {
			if _, err := s.Decide(t.Context(), tenant, verdict(c, false, "bob")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		finishCall(t, s, c)
	}
	if turn, err := s.Turn(t.Context(), tenant, w.Turn); err != nil || turn.OpenCalls != 0 || turn.Continuation != nil {
		t.Fatalf("all calls are settled while the turn streams: %+v, %v", turn, err)
	}
	out, err := s.FinishLive(t.Context(), tenant, ending(w, Parts{[]byte(`{"type":"step-start"}`), nil, nil}))
	if err != nil || out.Turn.State() != model.TurnContinuing {
		t.Fatalf("finish: %+v, %v", out.Turn, err)
	}
	requireConsistent(t, s)
}

// finishCall claims a queued call and finishes it.
func finishCall(t *testing.T, s *Store, c *model.Call) {
	t.Helper()
	claimed, err := s.Claim(t.Context(), tenant, c.ID, claimOf(c, "x"))
	if err != nil {
		t.Fatal(err)
	}
	done := model.Result{Kind: model.ResultSucceeded, Output: []byte(`1`)}
	if _, err := s.Finish(t.Context(), tenant, c.ID, claimed.Call.Fence, "x", done); err != nil {
		t.Fatal(err)
	}
}

// A writer whose stream was handed to another one changes nothing more.
func TestAnOldStreamIsFenced(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	_, old := streaming(t, s)
	begun, err := s.BeginStream(t.Context(), tenant, old, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	late := map[string]error{}
	_, late["extend"] = s.ExtendLive(t.Context(), tenant, extension(old, 0, asking(tool, "a")))
	_, late["finish"] = s.FinishLive(t.Context(), tenant, ending(old, Parts{}))
	_, late["begin"] = s.BeginStream(t.Context(), tenant, old, time.Minute)
	late["renew"] = s.RenewStream(t.Context(), tenant, old, time.Minute)
	for name, err := range late {
		if !errors.Is(err, model.ErrFenceLost) {
			t.Errorf("%s by an old writer: %v", name, err)
		}
	}
	now := old
	now.Fence = begun.Fence
	if err := s.RenewStream(t.Context(), tenant, now, time.Minute); err != nil {
		t.Error(err)
	}
	elsewhere := now
	elsewhere.Topic = "another"
	if err := s.RenewStream(t.Context(), tenant, elsewhere, time.Minute); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("of another topic: %v", err)
	}
	if _, err := s.FinishLive(t.Context(), tenant, ending(now, Parts{[]byte(`{"type":"step-start"}`)})); err != nil {
		t.Fatal(err)
	}
	if err := s.RenewStream(t.Context(), tenant, now, time.Minute); !errors.Is(err, model.ErrTurnEnded) {
		t.Errorf("after the end: %v", err)
	}
	requireConsistent(t, s)
}

// A stream that dies leaves the turn as its last commit says.
func TestAStreamThatDiesLeavesItsCalls(t *testing.T) {
	t.Parallel()
	s := open(t)
	tool := putTool(t, s, "delete_file", model.EffectUnsafe)
	_, w := streaming(t, s)
	if _, err := s.ExtendLive(t.Context(), tenant, extension(w, 0, asking(tool, "a"))); err != nil {
		t.Fatal(err)
	}
	exec(t, s, `update turns set live_until = clock_timestamp() - interval '1 second'`)
	if err := s.RenewStream(t.Context(), tenant, w, time.Minute); !errors.Is(err, model.ErrFenceLost) {
		t.Fatalf("a lease that ran out was renewed: %v", err)
	}
	if n, err := s.CloseDeadTurns(t.Context()); err != nil || n != 1 {
		t.Fatalf("closed: %d, %v", n, err)
	}
	if got := state(t, s, w.Turn); got != model.TurnAwaitingApproval {
		t.Fatal(got)
	}
	requireConsistent(t, s)
}
