package store

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/model"
)

// The rows of a turn do, transaction by transaction, what the pure rules do in
// memory, whatever comes in whatever order, and whoever dies in mid-commit
// (I1, I2, I4). A failure is shrunk to its shortest trace and printed with its
// seed; -rapid.checks=N plays more than the few of an ordinary run.
func TestTheRowsDoWhatTheRulesDo(t *testing.T) {
	t.Parallel()
	set := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { set[f.Name] = true })
	for name, value := range map[string]string{"rapid.checks": "24", "rapid.steps": "60", "rapid.nofailfile": "true"} {
		if !set[name] {
			if err := flag.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := open(t)
	m := &machine{s: s, tools: map[model.Effect]model.CallTool{}, seen: map[string]int{}}
	for _, e := range []model.Effect{model.EffectUnsafe, model.EffectKeyed, model.EffectRead, model.EffectIdempotent} {
		m.tools[e] = putTool(t, s, "tool_"+string(e), e)
	}
	for round := 0; round < 5 && (round == 0 || m.lacks() != "") && !t.Failed(); round++ { // what is rare may need another one
		rapid.Check(t, func(rt *rapid.T) {
			m.begin(rt)
			rt.Repeat(m.actions())
			if m.oneIn(rt, 2) {
				m.supersede(rt)
			}
		})
	}
	t.Logf("%d turns: %v", m.played.Load(), m.seen)
	if what := m.lacks(); what != "" && !t.Failed() {
		t.Errorf("nobody %s", what)
	}
	wrong, err := s.Verify(t.Context(), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range wrong {
		t.Error(v)
	}
}

// machine is one turn twice: its rows, and what the rules make of the same
// events in memory.
type machine struct {
	s      *Store
	tools  map[model.Effect]model.CallTool
	played atomic.Int64
	seen   map[string]int // how often what was answered

	topic   model.TopicID
	wish    Registration
	said    Appending // of a reply
	turn    *model.Turn
	next    *model.Turn // the turn that accepted the continuation last
	past    []model.DecisionRecord
	asked   []model.Decision
	held    []claimed
	version int64
	changed bool
	made    int
}

// lacks is what must happen for a run to say anything, and has not.
func (m *machine) lacks() string {
	switch {
	case m.seen["killed"] == 0:
		return "was killed in mid-commit"
	case m.seen["give up"]+m.seen["die"] == 0:
		return "gave a continuation back"
	case m.seen["extend"]+m.seen["finish live"] == 0:
		return "streamed"
	}
	return ""
}

// begin registers a turn of one to three calls, or one that asks for a reply.
func (m *machine) begin(rt *rapid.T) {
	m.topic = model.TopicID(fmt.Sprint("played-", m.played.Add(1)))
	m.next, m.past, m.asked, m.held, m.version, m.made = nil, nil, nil, nil, 0, 0
	if rapid.Bool().Draw(rt, "reply") {
		m.beginReply(rt)
		return
	}
	var calls []NewCall
	for i := range rapid.IntRange(1, 3).Draw(rt, "calls") {
		tool := m.tools[rapid.SampledFrom([]model.Effect{model.EffectUnsafe, model.EffectKeyed, model.EffectRead, model.EffectIdempotent}).Draw(rt, "effect")]
		if rapid.Bool().Draw(rt, "asked") {
			c := asking(tool, fmt.Sprint("c", i))
			c.Call.Approval.Rule.Quorum = rapid.IntRange(1, 2).Draw(rt, "quorum")
			calls = append(calls, c)
		} else {
			calls = append(calls, allowed(tool, fmt.Sprint("c", i)))
		}
	}
	m.wish = registration(string(m.topic), calls...)
	if rapid.Bool().Draw(rt, "eager") {
		m.wish.Turn.Execution = model.ExecuteEager
	}
	if rapid.Bool().Draw(rt, "held") {
		m.wish.Turn.Hold = &model.Hold{Lease: time.Hour, OnLapse: rapid.SampledFrom([]model.OnLapse{model.LapseDeny, model.LapsePark}).Draw(rt, "on lapse")}
	}
	out, err := m.s.Register(context.Background(), m.wish)
	if err != nil {
		rt.Fatalf("register: %v", err)
	}
	m.turn = m.expected(m.wish, out.Turn.ID)
	m.compare(rt, "register")
}

// expected is the turn that a registration makes by the rules.
func (m *machine) expected(r Registration, id model.TurnID) *model.Turn {
	t := r.Turn
	t.ID, t.Tenant, t.Topic = id, tenant, m.topic
	if t.Hold != nil {
		h := *t.Hold
		h.Until = time.Now().Add(h.Lease)
		t.Hold = &h
	}
	for i := range r.Calls {
		c := r.Calls[i].Call
		if c.Approval != nil {
			a := *c.Approval
			a.ExpiresAt = time.Now().Add(r.Expiry)
			c.Approval = &a
		}
		t.Calls = append(t.Calls, &c)
	}
	t.Begin(time.Now())
	m.changed = true
	return &t
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"register again":   m.registerAgain,
		"decide":           m.decide,
		"decide again":     m.decideAgain,
		"claim":            m.claim,
		"finish":           m.finish,
		"finish, sent too": m.finish,
		"lose a lease":     m.loseLease,
		"expire":           m.expire,
		"lapse":            m.lapse,
		"stop":             m.stop,
		"cancel":           m.cancel,
		"accept":           func(rt *rapid.T) { m.accept(rt, m.oneIn(rt, 2)) },
		"stream":           m.stream,
		"stream, too":      m.stream,
		"stream, further":  m.stream,
		"redrive":          m.redrive,
		"deliver":          m.deliver,
		"":                 func(rt *rapid.T) { m.compare(rt, "at rest") },
	}
}

// call picks one of the calls that fits, or nil; now and then any, to be refused.
func (m *machine) call(rt *rapid.T, fits func(*model.Call) bool) *model.Call {
	list := m.turn.Calls
	if !m.oneIn(rt, 6) {
		list = slices.DeleteFunc(slices.Clone(list), func(c *model.Call) bool { return !fits(c) })
	}
	if len(list) == 0 {
		return nil
	}
	return rapid.SampledFrom(list).Draw(rt, "call")
}

func (m *machine) oneIn(rt *rapid.T, n int) bool { return rapid.IntRange(1, n).Draw(rt, "one in") == n }

func isRequested(c *model.Call) bool { return c.State == model.CallApprovalRequested }
func isQueued(c *model.Call) bool    { return c.Run == model.RunQueued }
func isStarted(c *model.Call) bool   { return c.Run == model.RunStarted }

func (m *machine) registerAgain(rt *rapid.T) {
	if !m.oneIn(rt, 4) {
		return // once in a while is enough
	}
	if m.turn.Reply {
		m.sayAgain(rt)
		return
	}
	out, err := m.s.Register(context.Background(), m.wish)
	if err != nil || out.Created || out.Turn.ID != m.turn.ID {
		rt.Fatalf("the same registration: %+v, %v", out, err)
	}
}

func (m *machine) decide(rt *rapid.T) {
	c := m.call(rt, isRequested)
	if c == nil || c.Approval == nil {
		return
	}
	d := verdict(c, rapid.IntRange(0, 3).Draw(rt, "verdict") > 0, rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "by"))
	m.asked = append(m.asked, d)
	m.answer(rt, d)
}

func (m *machine) decideAgain(rt *rapid.T) {
	if len(m.asked) == 0 {
		return // nothing was decided
	}
	m.answer(rt, rapid.SampledFrom(m.asked).Draw(rt, "decision"))
}

func (m *machine) answer(rt *rapid.T, d model.Decision) {
	past := model.Answers{}
	for i, r := range m.past {
		if r.ID == d.ID {
			past.SameID = &m.past[i]
		}
		if r.Approval == d.Approval {
			past.Approval = append(past.Approval, r)
		}
	}
	want, wantErr := m.turn.Decide(d, past, time.Now())
	m.past = append(m.past, m.turn.Records.Decisions...)
	if want == model.DecisionAlreadyApplied && m.turn.Asked(d.Approval).Approval.State == model.ApprovalRequested {
		want = model.DecisionRecorded // the same answer again, and others are needed still
	}
	var got Decided
	m.perhapsKilled(rt, lockTopic, func() (err error) {
		got, err = m.s.Decide(context.Background(), tenant, d)
		return err
	}, wantErr)
	if wantErr == nil && got.Result != want {
		rt.Fatalf("decide: %s, by the rules %s", got.Result, want)
	}
	m.compare(rt, "decide")
}

func (m *machine) claim(rt *rapid.T) {
	c := m.call(rt, isQueued)
	if c == nil {
		return
	}
	m.set(rt, `update calls set not_before = clock_timestamp() where call_id = ($1::text)::uuid and not_before is not null`, string(c.ID))
	claim := claimOf(c, model.NewToken())
	claim.Definition = c.Tool.Definition
	wantErr := m.turn.Claim(c, claim, later(time.Now(), c.NotBefore))
	m.perhapsKilled(rt, lockTurn, func() error {
		_, err := m.s.Claim(context.Background(), tenant, c.ID, claim)
		return err
	}, wantErr)
	if wantErr == nil {
		m.held = append(m.held, claimed{c.ID, c.Fence, claim.Token})
	}
	if c.Run == model.RunStarted {
		m.turn.Changed = false // a claim shows nowhere in its topic
	}
	m.compare(rt, "claim")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *machine) finish(rt *rapid.T) {
	if len(m.held) == 0 {
		return // nothing is claimed
	}
	h := rapid.SampledFrom(m.held).Draw(rt, "claim")
	r := rapid.SampledFrom([]model.Result{
		{Kind: model.ResultSucceeded, Output: []byte(`1`)}, {Kind: model.ResultFailed, Text: "no"},
		{Kind: model.ResultUnknown, Text: "?"}, {Kind: model.ResultNothingSent, Text: "refused"},
	}).Draw(rt, "result")
	wantErr := m.turn.Finish(m.turn.Call(h.call), h.fence, h.token, r, time.Now())
	again := m.turn.Changed && m.turn.Call(h.call).Run == model.RunQueued
	m.perhapsKilled(rt, lockTopic, func() error {
		_, err := m.s.Finish(context.Background(), tenant, h.call, h.fence, h.token, r)
		if again && errors.Is(err, model.ErrFenceLost) {
			return nil // it was committed by the try that was killed, and the run taken back
		}
		return err
	}, wantErr)
	m.compare(rt, "finish")
}

func (m *machine) loseLease(rt *rapid.T) {
	c := m.call(rt, isStarted)
	if c == nil {
		return
	}
	m.turn.LoseLease(c, c.LeaseUntil)
	m.set(rt, `update calls set lease_until = clock_timestamp() where run = 'started' and call_id = ($1::text)::uuid`, string(c.ID))
	_, err := m.s.LoseLeases(context.Background())
	m.swept(rt, "lose leases", err)
}

func (m *machine) expire(rt *rapid.T) {
	if !m.oneIn(rt, 4) {
		return // it would leave little to decide
	}
	c := m.call(rt, isRequested)
	if c == nil || c.Approval == nil {
		return
	}
	m.turn.Expire(c, c.Approval.ExpiresAt)
	m.set(rt, `update approvals set expires_at = clock_timestamp() where state = 'requested' and call_id = ($1::text)::uuid`, string(c.ID))
	_, err := m.s.ExpireApprovals(context.Background())
	m.swept(rt, "expire", err)
}

func (m *machine) lapse(rt *rapid.T) {
	if m.turn.Hold == nil {
		return // nothing is held
	}
	m.turn.Lapse(m.turn.Hold.Until)
	m.set(rt, `update turns set hold_until = clock_timestamp() where turn_id = ($1::text)::uuid and hold_until is not null`, string(m.turn.ID))
	_, err := m.s.LapseHolds(context.Background())
	m.swept(rt, "lapse", err)
}

func (m *machine) stop(rt *rapid.T) {
	if !m.oneIn(rt, 4) {
		return // it would leave little to run
	}
	c := m.call(rt, isQueued)
	if c == nil {
		return
	}
	m.turn.StopQueued(c, "The tool is gone.", time.Now())
	m.swept(rt, "stop", m.s.StopQueued(context.Background(), tenant, c.ID, "The tool is gone."))
}

func (m *machine) cancel(rt *rapid.T) {
	if !m.oneIn(rt, 16) {
		return // it ends the play
	}
	m.turn.End(model.TurnAborted, model.OutcomeCancelled, model.TextCancelled, time.Now())
	_, err := m.s.Cancel(context.Background(), tenant, m.topic, m.turn.ID, "key:ops", "api")
	m.swept(rt, "cancel", err)
}

func (m *machine) swept(rt *rapid.T, what string, err error) {
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	m.compare(rt, what)
}

// accept registers a turn that continues, whole or live.
func (m *machine) accept(rt *rapid.T, live bool) {
	if m.turn.Acceptable() != nil && !m.oneIn(rt, 6) {
		return // there is nothing to accept
	}
	m.made++
	r := registration(string(m.topic))
	r.Message, r.Continues, r.Content, r.WhileOpen = model.MessageID(fmt.Sprint("next", m.made)), m.turn.ID, sum(fmt.Sprint(m.topic, m.made)), WhileOpenParallel
	if live {
		r.Live = time.Hour
	}
	out, err := m.s.Register(context.Background(), r)
	wantErr := m.turn.Accept(out.turnID(), time.Now())
	if !errors.Is(err, wantErr) || (err == nil) != (wantErr == nil) {
		rt.Fatalf("accept: %v, by the rules %v", err, wantErr)
	}
	if err == nil {
		m.next = out.Turn
	}
	m.compare(rt, "accept")
}

func (r Registered) turnID() model.TurnID {
	if r.Turn == nil {
		return ""
	}
	return r.Turn.ID
}

const (
	lockTopic = `select from topics where topic_id = $1 for no key update`
	lockTurn  = `select from turns where topic_id = $1 for no key update`
)

// perhapsKilled makes a commit, and perhaps ends its backend in the middle of
// it: it holds a lock that the commit needs, waits until somebody waits for
// it, and ends that session. The commit is then looked up by its token.
func (m *machine) perhapsKilled(rt *rapid.T, lock string, commit func() error, want error) {
	var err error
	if m.oneIn(rt, 4) {
		err = m.killed(rt, lock, commit)
	} else {
		err = commit()
	}
	if (err == nil) != (want == nil) || want != nil && !errors.Is(err, want) {
		rt.Fatalf("answered %v, by the rules %v", err, want)
	}
}

func (m *machine) killed(rt *rapid.T, lock string, commit func() error) error {
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, m.s.pool.Config().ConnConfig.Copy())
	if err != nil {
		rt.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, lock, string(m.topic))
	}
	if err != nil {
		rt.Fatalf("lock: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- commit() }()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		select {
		case err := <-done:
			return err // nothing to write, so it waited for nobody
		case <-time.After(2 * time.Millisecond):
		}
		tag, err := m.s.pool.Exec(ctx, `
			select pg_terminate_backend(pid) from pg_stat_activity
			 where datname = current_database() and $1 = any(pg_blocking_pids(pid))`, conn.PgConn().PID())
		if err == nil && tag.RowsAffected() > 0 {
			m.seen["killed"]++
			break
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		rt.Fatalf("unlock: %v", err)
	}
	return <-done
}

// compare holds the rows against the turn in memory, and the topic's counters
// and version against what changed.
func (m *machine) compare(rt *rapid.T, what string) {
	m.seen[what]++
	if err := m.turn.Err(); err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	rows, topic, err := m.s.TurnInTopic(context.Background(), tenant, m.turn.ID)
	if err != nil {
		rt.Fatalf("%s: %v", what, err)
	}
	if got, want := sketch(rows), sketch(m.turn); !slices.Equal(got, want) {
		rt.Fatalf("after %s\nthe rows  %+v\nthe rules %+v", what, got, want)
	}
	var counters model.TopicCounters
	counters.Add(m.turn.Standing(), 1)
	if m.next != nil {
		counters.Add(m.next.Standing(), 1)
	}
	if topic.Counters != counters {
		rt.Fatalf("after %s the topic counts %+v, by the rules %+v", what, topic.Counters, counters)
	}
	changed := m.turn.Changed || m.next != nil && m.next.Changed
	m.compareNext(rt, what)
	if grew := topic.Version - m.version; changed && grew != 1 || !changed && grew != 0 {
		rt.Fatalf("after %s the version grew by %d, changed %v", what, grew, changed)
	}
	m.version, m.turn.Changed, m.turn.Records = topic.Version, false, model.Records{}
}

// sketch is what two turns have in common that did the same at other times.
func sketch(t *model.Turn) []string {
	out := []string{fmt.Sprint(t.State(), t.Streaming, t.Ended, t.Discarded, t.Hold != nil, t.OpenApprovals, t.OpenCalls, t.UnknownCalls)}
	if k := t.Continuation; k != nil {
		out = append(out, fmt.Sprint(k.State, k.Generation, k.AcceptedBy))
	}
	if t.Live != nil {
		out = append(out, fmt.Sprint("live ", t.Live.Fence))
	}
	for i, c := range t.Calls {
		line := fmt.Sprint(i, c.State, c.Run, c.Fence, c.Outcome, c.ErrorText, c.ClaimToken, c.Uncertain, hex.EncodeToString(c.Digest), hex.EncodeToString(c.ResultDigest))
		if a := c.Approval; a != nil {
			line += fmt.Sprint(a.State, a.DecidedBy, a.DecisionID, a.Reason)
		}
		out = append(out, line)
	}
	return out
}

// set moves a time in the rows to where something is due.
func (m *machine) set(rt *rapid.T, query string, args ...any) {
	if _, err := m.s.pool.Exec(context.Background(), query, args...); err != nil {
		rt.Fatalf("%s: %v", query, err)
	}
}
