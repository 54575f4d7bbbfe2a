package model

import (
	"errors"
	"fmt"
	"time"
)

// event is one thing that can happen. do tells whether it can happen in this
// world at all, and what the rules answered.
type event struct {
	name string
	when func(w *small) bool // a look that spares the try; nil: always
	do   func(w *small) (bool, error)
	// system events need no person and no misfortune: while the system is up
	// they come sooner or later.
	system bool
}

// events are all that can happen in a world of a kind.
func (k worldKind) events() []event {
	out := k.turnEvents()
	for i, c := range k.tools {
		if c.asked {
			out = append(out, peopleEvents(i, k.quorum)...)
		}
		out = append(out, runEvents(i, c, k.spare.resolves > 0)...)
		for h := range 2 {
			out = append(out, workerEvents(h, i)...)
		}
	}
	for h := range 2 {
		out = append(out, handEvents(h)...)
	}
	return append(out, continuationEvents()...)
}

func (k worldKind) turnEvents() []event {
	open := func(w *small) bool { return !w.turn.State().Ended() }
	end := func(state TurnState, why Outcome, text string) func(*small) (bool, error) {
		return func(w *small) (bool, error) { return w.turn.End(state, why, text, noon), nil }
	}
	out := []event{
		{name: "cancel", when: open, do: end(TurnAborted, OutcomeCancelled, TextCancelled)},
		{name: "supersede", when: open, do: end(TurnAborted, OutcomeSuperseded, TextSuperseded)},
	}
	if k.hold != "" {
		out = append(out, event{name: "lapse", system: true, when: func(w *small) bool { return w.turn.Hold != nil }, do: func(w *small) (bool, error) {
			return w.turn.Lapse(noon.Add(time.Hour)), nil
		}})
	}
	if !k.live {
		return out
	}
	live := func(w *small) bool { return w.turn.Live != nil }
	return append(out,
		event{name: "the model fails", when: live, do: func(w *small) (bool, error) {
			return w.turn.Streaming && w.turn.End(TurnError, OutcomeCancelled, "failed", noon), nil
		}},
		event{name: "the stream ends", when: live, do: func(w *small) (bool, error) {
			if err := w.turn.CheckLive(1, "live"); err != nil {
				return false, nil
			}
			w.turn.Finalize(noon)
			return true, nil
		}},
		event{name: "the stream dies", system: true, when: live, do: func(w *small) (bool, error) { return w.turn.Die(noon.Add(time.Hour)), nil }},
	)
}

func peopleEvents(i, quorum int) []event {
	decide := func(approved bool, by string, edit *Edit, at time.Time) func(*small) (bool, error) {
		return func(w *small) (bool, error) { return true, w.decide(i, approved, by, edit, at) }
	}
	asked := func(w *small) bool { return w.turn.Calls[i].State == CallApprovalRequested }
	out := []event{
		{name: fmt.Sprint("ann approves ", i), do: decide(true, "user:ann", nil, noon)},
		{name: fmt.Sprint("bob denies ", i), do: decide(false, "user:bob", nil, noon)},
		{name: fmt.Sprint("ann approves too late ", i), when: asked, do: decide(true, "user:ann", nil, noon.Add(time.Hour))},
		{name: fmt.Sprint("expire ", i), system: true, when: asked, do: func(w *small) (bool, error) {
			return w.turn.Expire(w.turn.Calls[i], noon.Add(time.Hour)), nil
		}},
	}
	if quorum > 1 {
		edit := &Edit{Input: []byte("{}"), Digest: []byte("edited")}
		out = append(out,
			event{name: fmt.Sprint("bob approves ", i), do: decide(true, "user:bob", nil, noon)},
			event{name: fmt.Sprint("cid edits ", i), do: decide(true, "user:cid", edit, noon)})
	}
	return out
}

// decide answers as one person does who sends the same answer as often as it
// takes to be heard: the id is made of what is said.
func (w *small) decide(i int, approved bool, by string, edit *Edit, at time.Time) error {
	id := fmt.Sprint(i, approved, by, edit != nil)
	d := Decision{ID: id, Approval: w.turn.Calls[i].Approval.ID, Approved: approved, Edit: edit, Content: []byte(id),
		By: Principal{Subject: by, Key: "k", Roles: []Role{RoleApprover}}}
	past := Answers{}
	for j, r := range w.past {
		if r.ID == id {
			past.SameID = &w.past[j]
		}
		if r.Approval == d.Approval {
			past.Approval = append(past.Approval, r)
		}
	}
	_, err := w.turn.Decide(d, past, at)
	w.past = append(w.past, w.turn.Records.Decisions...)
	return err
}

func runEvents(i int, k callKind, resolves bool) []event {
	lose := func(at func(*Call) time.Time) func(*small) (bool, error) {
		return func(w *small) (bool, error) {
			c := w.turn.Calls[i]
			return w.turn.LoseLease(c, at(c)), nil
		}
	}
	started := func(w *small) bool { return w.turn.Calls[i].Run == RunStarted }
	queued := func(w *small) bool { return w.turn.Calls[i].Run == RunQueued && w.spare.stops > 0 }
	out := []event{
		{name: fmt.Sprint("lose the lease of ", i), system: true, when: started, do: lose(func(c *Call) time.Time { return c.LeaseUntil })},
		{name: fmt.Sprint("stop ", i), when: queued, do: func(w *small) (bool, error) {
			w.spare.stops--
			return w.spare.stops >= 0 && w.turn.StopQueued(w.turn.Calls[i], "The tool is gone. It did not run.", noon), nil
		}},
	}
	if resolves {
		out = append(out, resolveEvents(i)...)
	}
	if k.effect == EffectKeyed {
		out = append(out, event{name: fmt.Sprint("lose the lease after the key's retention of ", i), system: true, when: started,
			do: lose(func(c *Call) time.Time { return c.FirstStartedAt.Add(c.Tool.KeyRetention) })})
	}
	return out
}

// resolveEvents are what a person finds out about call i, who knows the truth
// or knows that nobody does.
func resolveEvents(i int) []event {
	resolve := func(o ResolutionOutcome, could func(*small) bool) event {
		return event{name: fmt.Sprint("a person resolves ", o, " ", i), do: func(w *small) (bool, error) {
			c := w.turn.Calls[i]
			r := Resolution{Outcome: o, Evidence: "seen", By: Principal{Subject: "user:ann", Key: "k", Roles: []Role{RoleApprover}}}
			_, err := w.turn.Resolve(c, r, c.ResolvableAt())
			if err == nil {
				w.bury(i)
				w.spare.resolves--
			}
			return true, err
		}, when: func(w *small) bool { return w.turn.Calls[i].Fence > 0 && w.spare.resolves > 0 && could(w) }}
	}
	return []event{
		resolve(ResolvedHappened, func(w *small) bool { return w.ledger[i].effects > 0 }),
		resolve(ResolvedDidNotHappen, func(w *small) bool { return w.ledger[i].effects == 0 }),
		resolve(ResolvedClosed, func(w *small) bool { return true }),
		{name: fmt.Sprint("a person resolves too early ", i), when: func(w *small) bool {
			return w.turn.Calls[i].Run == RunUnknown
		}, do: func(w *small) (bool, error) {
			c := w.turn.Calls[i]
			_, err := w.turn.Resolve(c, Resolution{Outcome: ResolvedClosed, By: Principal{Roles: []Role{RoleApprover}}}, c.LeaseUntil)
			if err == nil {
				return true, errors.New("resolved while the attempt may be alive")
			}
			return true, err
		}},
	}
}

// bury is what waiting for a call's quarantine means: who has not sent by then
// never does.
func (w *small) bury(i int) {
	for h, mine := range w.workers {
		if mine.call == i && !mine.sent {
			w.workers[h] = hand{call: -1}
		}
	}
}

// workerEvents are how worker h comes to hold call i.
func workerEvents(h, i int) []event {
	claim := func(definition string, heard bool, at func(*Call) time.Time) func(*small) (bool, error) {
		return func(w *small) (bool, error) {
			c := w.turn.Calls[i]
			token := fmt.Sprint(h, ":", c.Fence+1)
			return true, w.claim(h, i, token, definition, heard, at(c))
		}
	}
	due := func(c *Call) time.Time { return later(noon, c.NotBefore) }
	free := func(w *small) bool { return w.workers[h].call < 0 }
	queued := func(w *small) bool { return free(w) && w.turn.Calls[i].Run == RunQueued }
	queuedAgain := func(w *small) bool { return free(w) && w.turn.Calls[i].Uncertain }
	return []event{
		{name: fmt.Sprint(h, " claims ", i), when: free, system: true, do: claim("definition", true, due)},
		{name: fmt.Sprint(h, " claims long after ", i), when: queuedAgain, system: true, do: claim("definition", true, func(c *Call) time.Time {
			return due(c).Add(48 * time.Hour)
		})},
		{name: fmt.Sprint(h, " claims and does not hear of ", i), when: queued, do: func(w *small) (bool, error) {
			w.spare.crashes--
			if w.spare.crashes < 0 {
				return false, nil
			}
			return claim("definition", false, due)(w)
		}},
		{name: fmt.Sprint(h, " claims after a change of ", i), when: queued, do: func(w *small) (bool, error) {
			w.spare.stops--
			if w.spare.stops < 0 {
				return false, nil
			}
			return claim("changed", true, due)(w)
		}},
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (w *small) claim(h, i int, token, definition string, heard bool, at time.Time) error {
	c, before := w.turn.Calls[i], w.turn.Calls[i].Fence
	known := c.Uncertain && c.Tool.Effect == EffectKeyed
	err := w.turn.Claim(c, Claim{Token: token, Worker: token, Lease: time.Minute, Digest: c.Digest, Definition: []byte(definition)}, at)
	if err != nil {
		if w.workers[h].token == token {
			w.workers[h] = hand{call: -1} // it gives up a claim that is not its own
		}
		return err
	}
	if c.Fence > before && known && !at.Before(c.FirstStartedAt.Add(c.Tool.KeyRetention)) {
		w.ledger[i].late = true
	}
	w.workers[h] = hand{call: i, token: token}
	if heard {
		w.workers[h].fence = c.Fence
	}
	return nil
}

// handEvents are what worker h does with what it holds, late or in time.
func handEvents(h int) []event {
	holds := func(w *small) bool { return w.workers[h].call >= 0 }
	finish := func(kind ResultKind, sent bool) event {
		return event{name: fmt.Sprint(h, " finishes ", kind, ", sent ", sent), system: true, when: func(w *small) bool {
			return w.workers[h].fence > 0 && w.workers[h].sent == sent
		}, do: func(w *small) (bool, error) {
			mine := w.workers[h]
			w.workers[h] = hand{call: -1}
			return true, w.finish(mine, Result{Kind: kind, Output: []byte("1")})
		}}
	}
	return []event{
		{name: fmt.Sprint(h, " asks again for its claim"), system: true, when: func(w *small) bool { return holds(w) && w.workers[h].fence == 0 }, do: func(w *small) (bool, error) {
			mine := w.workers[h]
			return true, w.claim(h, mine.call, mine.token, "definition", true, later(noon, w.turn.Calls[mine.call].NotBefore))
		}},
		{name: fmt.Sprint(h, " sends"), system: true, when: func(w *small) bool {
			return w.workers[h].fence > 0 && !w.workers[h].sent
		}, do: func(w *small) (bool, error) {
			mine := &w.workers[h]
			mine.sent = true
			w.ledger[mine.call].effects++
			return true, nil
		}},
		{name: fmt.Sprint(h, " dies"), when: holds, do: func(w *small) (bool, error) {
			w.spare.crashes--
			if w.spare.crashes < 0 {
				return false, nil
			}
			w.workers[h] = hand{call: -1}
			return true, nil
		}},
		finish(ResultSucceeded, true), finish(ResultFailed, true), finish(ResultUnknown, true),
		finish(ResultUnknown, false), finish(ResultNothingSent, false),
	}
}

var errAgain = errors.New("the same result again was something new")

// finish sends a result, and once more, as a worker does that did not hear
// the answer.
func (w *small) finish(mine hand, r Result) error {
	err := w.turn.Finish(w.turn.Calls[mine.call], mine.fence, mine.token, r, noon)
	again := loadTurn(w.turn)
	switch twice := again.Finish(again.Calls[mine.call], mine.fence, mine.token, r, noon); {
	case twice != nil && !errors.Is(twice, err):
		return fmt.Errorf("%w: first %s, then %w", errAgain, fmt.Sprint(err), twice)
	case turnKey(again) != turnKey(w.turn):
		return errAgain
	}
	return err
}

func continuationEvents() []event {
	deliver := func(from, to ContinuationState) func(*small) (bool, error) {
		return func(w *small) (bool, error) {
			k := w.turn.Continuation
			if k == nil || k.State != from || w.turn.Hold != nil {
				return false, nil
			}
			w.turn.moveContinuation(to)
			return true, nil
		}
	}
	accept := func(w *small) (bool, error) { return true, w.accept(false) }
	acceptLive := func(w *small) (bool, error) {
		w.spare.followers--
		return w.spare.followers >= 0, w.accept(true)
	}
	settled := func(w *small) bool { return w.turn.Continuation != nil }
	followed := func(w *small) bool { return w.next != nil && !w.next.State().Ended() }
	return []event{
		{name: "dispatch", system: true, when: settled, do: deliver(ContinuationReady, ContinuationDispatched)},
		{name: "nobody accepts in time", when: settled, do: deliver(ContinuationDispatched, ContinuationReady)},
		{name: "give up", when: settled, do: func(w *small) (bool, error) { return w.turn.GiveUp(noon.Add(100 * time.Hour)), nil }},
		{name: "redrive", when: settled, do: func(w *small) (bool, error) {
			w.spare.redrives--
			return w.spare.redrives >= 0, w.turn.Redrive("ops", "api", noon)
		}},
		{name: "a turn accepts", system: true, do: accept},
		{name: "a live turn accepts", when: settled, do: acceptLive},
		{name: "the next turn's stream ends", when: followed, do: func(w *small) (bool, error) {
			w.next.Finalize(noon)
			return true, nil
		}},
		{name: "the next turn's stream dies", system: true, when: followed, do: func(w *small) (bool, error) {
			if !w.next.Die(noon.Add(time.Hour)) {
				return false, nil
			}
			if w.next.Discarded {
				w.turn.Return(w.next.ID, noon)
			}
			return true, nil
		}},
		{name: "the next turn is abandoned", when: followed, do: func(w *small) (bool, error) {
			if w.next.Live == nil {
				return false, nil
			}
			w.next.Abandon("nobody answers", "model", "model", noon)
			if w.next.Discarded {
				w.turn.FailAnswer(w.next.ID, noon)
			}
			return true, nil
		}},
		{name: "the next turn is cancelled", when: followed, do: func(w *small) (bool, error) {
			return w.next.End(TurnAborted, OutcomeCancelled, TextCancelled, noon), nil
		}},
	}
}

// accept registers a turn that continues: one that is whole, or a live one.
func (w *small) accept(live bool) error {
	id := TurnID(fmt.Sprint("next", w.followers))
	if err := w.turn.Accept(id, noon); err != nil {
		return err
	}
	w.followers++
	w.next = &Turn{ID: id, Continues: w.turn.ID, Streaming: live}
	if live {
		w.next.Live = &Live{Fence: 1, Token: "live", LeaseUntil: noon.Add(time.Hour)}
	}
	w.next.Begin(noon)
	return nil
}
