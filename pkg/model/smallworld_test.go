package model

import (
	"fmt"
	"slices"
	"time"
)

// small is a world small enough to be gone through whole: one turn with two
// calls, the turn that goes on from it, two workers, and what a ledger that
// nobody can correct knows about each call. Everybody in it may do anything
// that the rules let happen, at any moment; messages are left out, since
// they only say where to look, and here everybody looks everywhere.
type small struct {
	turn    *Turn
	next    *Turn // the turn that accepted the continuation last; nil before
	workers [2]hand
	ledger  [2]entry
	past    []DecisionRecord
	topic   TopicCounters

	followers int // turns that ever accepted the continuation
	completed int // of these, the ones that completed
	spare     spare
}

// hand is what a worker holds: one claim, or nothing (call is -1).
type hand struct {
	call  int
	fence int64 // 0: claimed, and the answer did not arrive
	token string
	sent  bool // the tool has had its effect
}

// entry is what really happened about one call.
type entry struct {
	effects  int
	open     bool // an attempt's row has no end
	unproven bool // an attempt before the last ended otherwise than by proof that nothing was sent
	doubtful bool // so did the last
	late     bool // a key was used again after its retention
}

// spare bounds what the surroundings do to the world.
type spare struct {
	crashes   int // of workers, and answers that are lost
	stops     int // definitions that change, preparations that fail for good
	followers int // live ones
	redrives  int
	resolves  int
}

var noon = time.Unix(1_000_000, 0)

// worldKind is one of the worlds to be explored.
type worldKind struct {
	name   string
	tools  [2]callKind
	eager  bool
	live   bool
	hold   OnLapse // "": none
	quorum int
	spare  spare
}

type callKind struct {
	effect   Effect
	asked    bool
	executor Executor
}

func (k worldKind) start() *small {
	w := &small{workers: [2]hand{{call: -1}, {call: -1}}, spare: k.spare}
	w.turn = &Turn{ID: "turn", Execution: ExecuteWhenDecided, Streaming: k.live}
	if k.eager {
		w.turn.Execution = ExecuteEager
	}
	if k.live {
		w.turn.Live = &Live{Fence: 1, Token: "live", LeaseUntil: noon.Add(time.Hour)}
	}
	if k.hold != "" {
		w.turn.Hold = &Hold{Lease: time.Minute, Until: noon.Add(time.Minute), OnLapse: k.hold}
	}
	for i, c := range k.tools {
		w.turn.Calls = append(w.turn.Calls, c.call(i, max(k.quorum, 1)))
	}
	w.turn.Begin(noon)
	w.topic.Add(w.turn.Standing(), 1)
	w.turn.Records = Records{}
	return w
}

func (k callKind) call(i, quorum int) *Call {
	id := fmt.Sprint("c", i)
	c := &Call{ID: CallID(id), Part: i + 1, ToolCallID: id, Digest: []byte("digest of " + id), Tool: CallTool{
		Name: "tool", Definition: []byte("definition"), Effect: k.effect, Executor: ExecutorWorker, MaxAttempts: 2, KeyRetention: time.Hour, Timeout: time.Minute}}
	if k.executor != "" {
		c.Tool.Executor = k.executor
	}
	if !k.asked {
		c.State, c.AllowedBy = CallInputAvailable, "default"
		return c
	}
	c.State = CallApprovalRequested
	c.Approval = &Approval{ID: ApprovalID("a" + id), State: ApprovalRequested, ExpiresAt: noon.Add(time.Hour), Rule: Requirement{Quorum: quorum}}
	return c
}

// load copies the world as a transaction finds it: the rows alone, nothing
// marked as changed.
func (w *small) load() *small {
	out := *w
	out.past = slices.Clone(w.past)
	out.turn = loadTurn(w.turn)
	if w.next != nil {
		out.next = loadTurn(w.next)
	}
	return &out
}

func loadTurn(t *Turn) *Turn {
	out := *t
	out.Records, out.Changed = Records{}, false
	out.Calls = make([]*Call, len(t.Calls))
	for i, c := range t.Calls {
		call := *c
		call.Changed, call.NewInput, call.NewOutput, call.UnknownAt = false, nil, nil, time.Time{}
		if c.Approval != nil {
			a := *c.Approval
			a.Changed = false
			call.Approval = &a
		}
		out.Calls[i] = &call
	}
	if t.Continuation != nil {
		k := *t.Continuation
		k.Changed = false
		out.Continuation = &k
	}
	if t.Hold != nil {
		h := *t.Hold
		out.Hold = &h
	}
	return &out
}

// share keeps one copy of what an event left alone.
func (w *small) share(before *small) {
	if !w.turn.Changed {
		w.turn = before.turn
	}
	for i, c := range w.turn.Calls {
		if !c.Changed {
			w.turn.Calls[i] = before.turn.Calls[i]
		}
	}
	if w.next != nil && !w.next.Changed {
		w.next = before.next
	}
	if len(w.past) == len(before.past) {
		w.past = before.past
	}
}

// The canonical key of a world: equal keys behave equally. Times are left
// out: every event comes at the time that lets it happen, whatever that is.
// The workers are alike, so their order does not matter.

func (w *small) key() string {
	b := append(make([]byte, 0, 256), turnKey(w.turn)...)
	if w.next != nil {
		b = append(b, '/')
		b = append(b, turnKey(w.next)...)
	}
	for i := range w.turn.Calls {
		e := &w.ledger[i]
		b = append(b, '|', byte('0'+e.effects), flag(e.open), flag(e.unproven), flag(e.doubtful), flag(e.late))
	}
	first, second := w.handKey(0), w.handKey(1)
	if second < first {
		first, second = second, first
	}
	b = append(append(append(b, '|'), first...), second...)
	for _, d := range w.past {
		b = append(append(b, ','), d.ID...)
	}
	return string(append(b, '|', byte(w.followers), byte(w.completed), byte(w.spare.crashes), byte(w.spare.stops),
		byte(w.spare.followers), byte(w.spare.redrives), byte(w.spare.resolves)))
}

func turnKey(t *Turn) string {
	b := append(make([]byte, 0, 128), flag(t.Streaming), flag(t.Live != nil), flag(t.Hold != nil), flag(t.Discarded))
	b = append(append(b, t.Ended...), byte('0'+t.OpenApprovals), byte('0'+t.OpenCalls), byte('0'+t.UnknownCalls))
	for _, c := range t.Calls {
		b = append(append(b, ' '), callKey(c)...)
	}
	return string(append(append(b, ' '), continuationKey(t.Continuation)...))
}

func callKey(c *Call) string {
	b := append(make([]byte, 0, 64), c.State...)
	b = append(append(append(b, ':'), c.Run...), byte('0'+c.Fence), flag(c.ClaimToken != ""), flag(c.Uncertain), flag(c.ResultDigest != nil))
	b = append(append(b, c.Outcome...), c.Digest...)
	if c.Resolution != nil {
		b = append(b, c.Resolution.Outcome...)
	}
	if c.Approval != nil {
		b = append(append(b, ':'), c.Approval.State...)
	}
	return string(b)
}

func continuationKey(k *Continuation) string {
	if k == nil {
		return "-"
	}
	return string(k.State) + string(byte('0'+k.Generation)) + string(k.AcceptedBy)
}

func (w *small) handKey(i int) string {
	h := &w.workers[i]
	if h.call < 0 {
		return "-"
	}
	return string([]byte{byte('0' + h.call), byte('0' + h.fence), flag(h.sent), flag(w.turn.Calls[h.call].ClaimToken == h.token)})
}

func flag(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}
