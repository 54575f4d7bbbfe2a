package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/model"
)

// The next turn of the machine, while it is live: it streams, commits calls,
// is handed to another writer, ends, is given up, or dies; and what its
// continuation then comes to.

// beginReply has a person's message ask for a reply, whose continuation is
// ready with it.
func (m *machine) beginReply(rt *rapid.T) {
	m.said = Appending{Topic: m.topic, WhileOpen: WhileOpenBlock, Actor: "key:backend", Channel: "chat",
		Messages: []NewMessage{{ID: "said", Role: "user", Parts: []byte(`[{"type":"text","text":"hi"}]`), Content: sum("said")}},
		Reply:    &model.Turn{Execution: model.ExecuteWhenDecided, Sink: model.Sink{Type: model.SinkNone, AcceptWithin: time.Minute}}}
	out, err := m.s.AppendMessages(context.Background(), tenant, m.said)
	if err != nil {
		rt.Fatalf("append: %v", err)
	}
	t := *m.said.Reply
	t.ID, t.Tenant, t.Topic, t.Message, t.Reply = out.Reply, tenant, m.topic, "said", true
	t.Begin(time.Now())
	m.turn = &t
	m.compare(rt, "a reply")
	if rapid.Bool().Draw(rt, "twice") {
		m.sayAgain(rt)
	}
	for range rapid.IntRange(0, 4).Draw(rt, "streaming") {
		m.stream(rt)
	}
}

// sayAgain posts the same message, which asks for nothing more.
func (m *machine) sayAgain(rt *rapid.T) {
	out, err := m.s.AppendMessages(context.Background(), tenant, m.said)
	if err != nil || out.Created || out.Reply != m.turn.ID {
		rt.Fatalf("the same message: %+v, %v", out, err)
	}
	m.compare(rt, "the same message")
}

// writer picks who writes to the live next turn: now and then one who lost the
// stream to another.
func (m *machine) writer(rt *rapid.T) (w Streamer, err error) {
	w = Streamer{Turn: m.next.ID, Topic: m.topic, Fence: m.next.Live.Fence, Token: m.next.Live.Token}
	if m.oneIn(rt, 3) {
		w.Fence-- // whom a stream that began later took it from
	}
	return w, m.next.CheckLive(w.Fence, w.Token)
}

// insists asks again where the database was away, as whoever streams does.
func insists(commit func() error) func() error {
	return func() (err error) {
		for range 5 {
			if err = commit(); !errors.Is(err, model.ErrUnavailable) {
				return err
			}
		}
		return err
	}
}

func (m *machine) isLive() bool { return m.next != nil && m.next.Live != nil }

// stream does something with the live next turn, which it opens where it can.
func (m *machine) stream(rt *rapid.T) {
	if !m.isLive() && m.turn.Acceptable() == nil {
		m.accept(rt, true)
	}
	if m.isLive() {
		rapid.SampledFrom([]func(*rapid.T){m.beginStream, m.extend, m.extend, m.finishLive, m.giveUp, m.die}).Draw(rt, "how")(rt)
	}
}

func (m *machine) beginStream(rt *rapid.T) {
	w, wantErr := m.writer(rt)
	out, err := m.s.BeginStream(context.Background(), tenant, w, time.Hour)
	if !errors.Is(err, wantErr) {
		rt.Fatalf("begin a stream: %v, by the rules %v", err, wantErr)
	}
	if wantErr == nil {
		if m.next.Live.Fence++; out.Fence != m.next.Live.Fence {
			rt.Fatalf("begin a stream: fence %d, by the rules %d", out.Fence, m.next.Live.Fence)
		}
	}
	m.compare(rt, "begin a stream")
}

// extend commits a call of the live next turn.
func (m *machine) extend(rt *rapid.T) {
	if len(m.next.Calls) > 2 {
		return // that is enough
	}
	m.made++
	make, tool := asking, m.tools[rapid.SampledFrom([]model.Effect{model.EffectUnsafe, model.EffectRead}).Draw(rt, "effect")]
	if rapid.Bool().Draw(rt, "allowed") {
		make = allowed
	}
	w, wantErr := m.writer(rt)
	call := make(tool, fmt.Sprint("streamed", m.made))
	call.Input = fmt.Appendf(nil, `{"path":"%d"}`, m.made) // one that repeats nothing, about which it would be asked
	call.Call.Digest = model.Digest(tenant, call.Call.ID, tool.Name, tool.Definition, call.Input)
	e := extension(w, len(m.next.Calls), call)
	if wantErr == nil {
		c := e.Calls[0].Call
		m.next.Extend([]*model.Call{&c}, e.Lease, time.Now())
	}
	m.perhapsKilled(rt, lockTopic, insists(func() error {
		_, err := m.s.ExtendLive(context.Background(), tenant, e)
		return err
	}), wantErr)
	m.compare(rt, "extend")
}

// giveUp is what the model loop does when nobody answers it.
func (m *machine) giveUp(rt *rapid.T) {
	w, wantErr := m.writer(rt)
	if wantErr == nil {
		m.next.Abandon("no model", "", "", time.Now())
		m.takenBack(m.turn.FailAnswer)
	}
	m.perhapsKilled(rt, lockTopic, insists(func() error {
		e := ending(w, nil)
		e.Error = "no model"
		_, err := m.s.AbandonLive(context.Background(), tenant, e)
		return err
	}), wantErr)
	m.compare(rt, "give up")
	m.markLate(rt)
}

// die lets the lease of the live next turn run out.
func (m *machine) die(rt *rapid.T) {
	m.next.Die(m.next.Live.LeaseUntil)
	m.takenBack(m.turn.Return)
	m.set(rt, `update turns set live_until = clock_timestamp() where topic_id = $1 and live_until is not null`, string(m.topic))
	_, err := m.s.CloseDeadTurns(context.Background())
	m.swept(rt, "die", err)
	m.markLate(rt)
}

// takenBack gives back what a next turn that left nothing had accepted.
func (m *machine) takenBack(how func(model.TurnID, time.Time) bool) {
	if m.next.Discarded {
		how(m.next.ID, time.Now())
	}
}

// finishLive ends the stream of the next turn as it is.
func (m *machine) finishLive(rt *rapid.T) {
	w, wantErr := m.writer(rt)
	if wantErr == nil {
		m.next.Finalize(time.Now())
	}
	parts := make(Parts, 1+len(m.next.Calls))
	parts[0] = []byte(`{"type":"step-start"}`)
	m.perhapsKilled(rt, lockTopic, insists(func() error {
		_, err := m.s.FinishLive(context.Background(), tenant, ending(w, parts))
		return err
	}), wantErr)
	m.compare(rt, "finish live")
}

func (m *machine) redrive(rt *rapid.T) {
	wantErr := m.turn.Redrive("key:ops", "api", time.Now())
	if err := m.s.Redrive(context.Background(), tenant, m.turn.ID, "key:ops", "api"); !errors.Is(err, wantErr) {
		rt.Fatalf("redrive: %v, by the rules %v", err, wantErr)
	}
	m.compare(rt, "redrive")
}

// deliver marks the continuation as delivered, as it is now or as it was
// before it came back: a mark may be late.
func (m *machine) deliver(rt *rapid.T) {
	c := m.turn.Continuation
	if c == nil {
		return // there is nothing to deliver
	}
	m.mark(rt, c, c.Generation-rapid.IntRange(0, 1).Draw(rt, "generations ago"))
}

// markLate is the mark of a delivery from before the continuation came back.
func (m *machine) markLate(rt *rapid.T) {
	if c := m.turn.Continuation; m.oneIn(rt, 2) {
		m.mark(rt, c, c.Generation-1)
	}
}

func (m *machine) mark(rt *rapid.T, c *model.Continuation, read int) {
	if read == c.Generation && (c.State == model.ContinuationReady || c.State == model.ContinuationDispatched) {
		c.State = model.ContinuationDispatched
	}
	err := m.s.Mark(context.Background(), Marks{Delivered: []Delivered{{tenant, m.turn.ID, read, time.Hour}}})
	m.swept(rt, "deliver", err)
}

// supersede is a newer turn of the topic, or a newer message, in the place of
// what is open.
func (m *machine) supersede(rt *rapid.T) {
	m.made++
	id := fmt.Sprint("newer", m.made)
	var err error
	if rapid.Bool().Draw(rt, "message") {
		message := NewMessage{ID: model.MessageID(id), Role: "user", Parts: []byte(`[{"type":"text","text":"hi"}]`), Content: sum(id)}
		_, err = m.s.AppendMessages(context.Background(), tenant,
			Appending{Topic: m.topic, Messages: []NewMessage{message}, WhileOpen: WhileOpenSupersede})
	} else {
		r := registration(string(m.topic))
		r.Message, r.Content, r.WhileOpen = model.MessageID(id), sum(fmt.Sprint(m.topic, id)), WhileOpenSupersede
		_, err = m.s.Register(context.Background(), r)
	}
	for _, t := range []*model.Turn{m.turn, m.next} {
		if t != nil {
			t.End(model.TurnAborted, model.OutcomeSuperseded, model.TextSuperseded, time.Now())
		}
	}
	m.turn.Changed = true // the topic has, at any rate
	m.swept(rt, "supersede", err)
}

// compareNext holds the rows of the next turn against the one in memory.
func (m *machine) compareNext(rt *rapid.T, what string) {
	if m.next == nil {
		return
	}
	if err := m.next.Err(); err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	rows, err := m.s.Turn(context.Background(), tenant, m.next.ID)
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	byID := func(a, b *model.Call) int { return a.Part - b.Part }
	slices.SortFunc(rows.Calls, byID)
	slices.SortFunc(m.next.Calls, byID)
	if got, want := sketch(rows), sketch(m.next); !slices.Equal(got, want) {
		rt.Fatalf("after %s\nthe rows of the next turn  %+v\nthe rules %+v", what, got, want)
	}
	m.next.Changed, m.next.Records = false, model.Records{}
}
