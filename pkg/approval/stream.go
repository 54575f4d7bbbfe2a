package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
)

// StreamRequest begins the stream of a live turn.
type StreamRequest struct {
	Fence     int64
	Token     string
	Executor  string
	ExpiresIn string
}

// StreamLease is how long a live turn lasts after its stream was last heard
// of.
const StreamLease = 30 * time.Second

// Stream is a live turn that streams: its calls are committed one by one, and
// its end with the rest. It is for one goroutine.
type Stream struct {
	Tenant  model.TenantID
	Message model.MessageID
	Writer  store.Streamer
	Notes   []strictjson.Raw // parts that stand behind the step-start

	service  *Service
	from     Origin
	turn     *model.Turn
	executor model.Executor
	expiry   time.Duration
}

// Stream hands a live turn's stream to whoever knows its fence and token.
// Errors: [Invalid], and those of [store.Store.BeginStream].
func (s *Service) Stream(ctx context.Context, from Origin, topic model.TopicID, turn model.TurnID, req StreamRequest) (*Stream, error) {
	f := &faults{}
	st := &Stream{Tenant: from.By.Tenant, service: s, from: from, executor: f.executor(req.Executor), expiry: f.expiry(req.ExpiresIn, s.expiry)}
	st.Writer = store.Streamer{Turn: turn, Topic: topic, Fence: req.Fence, Token: req.Token}
	if err := f.err(); err != nil {
		return nil, err
	}
	begun, err := s.store.BeginStream(ctx, st.Tenant, st.Writer, StreamLease)
	if err != nil {
		return nil, err
	}
	st.Writer.Fence, st.Message = begun.Fence, begun.Message
	if st.turn, err = s.store.Turn(ctx, st.Tenant, turn); err != nil {
		return nil, err
	}
	notes, err := s.notes(ctx, st.Tenant, st.turn.Continues)
	for _, n := range notes {
		st.Notes = append(st.Notes, strictjson.Raw(n))
	}
	return st, err
}

// Check tells whether the end of the stream would take a part, which stands at
// index. The calls of the stream are for [Stream.Commit]. Errors: [Invalid].
func (st *Stream) Check(raw strictjson.Raw, index int) error {
	f := &faults{}
	if index >= MaxParts {
		f.add("/parts", "must not be more than %d", MaxParts)
	}
	r := reader{faults: f, ids: map[string]bool{}, streamed: true}
	r.part(fmt.Sprintf("/parts/%d", index), raw)
	return f.err()
}

// Commit registers the calls of the stream's parts so far that are new, with
// what the stream said of its message, and gives each as the part that the
// committed row makes. Nothing of them may be shown before. Errors: [Invalid],
// and those of [store.Store.ExtendLive].
func (st *Stream) Commit(ctx context.Context, raws, said []strictjson.Raw) ([]strictjson.Raw, error) {
	f := &faults{}
	parts := readParts(f, raws, true)
	if err := f.err(); err != nil {
		return nil, err
	}
	made, err := st.service.prepare(ctx, st.Tenant, parts, st.executor, st.turn)
	if err != nil {
		return nil, err
	}
	ctx, at := st.service.steps.Begin(ctx, "register")
	out, err := st.service.store.ExtendLive(ctx, st.Tenant, store.Extension{
		Streamer: st.Writer, Parts: made.parts, About: aboutMessage(said), Calls: made.calls, Places: made.places, Expiry: st.expiry, Lease: StreamLease,
		Actor: st.from.Actor(), Channel: st.from.Channel,
	})
	about(at, out.Turn)
	at.End(err)
	if err != nil {
		return nil, err
	}
	st.turn = out.Turn
	return drawn(out.Turn, made.calls), nil
}

// drawn are the parts of calls that were just committed.
func drawn(turn *model.Turn, news []store.NewCall) (out []strictjson.Raw) {
	for _, n := range news {
		c := turn.Call(n.Call.ID)
		shown := uimessage.TurnParts(store.MessageTurn{Turn: turn, Parts: store.Parts{nil}, Calls: []store.MessageCall{
			{Call: alone(c), Dynamic: n.Dynamic, Extra: n.Extra, Input: n.Input}}})
		out = append(out, strictjson.Raw(shown[0]))
	}
	return out
}

// alone is a call as the only part of a turn.
func alone(c *model.Call) *model.Call {
	out := *c
	out.Part = 0
	return &out
}

// Finish ends the stream with all of its parts, and all that it said of its
// message. The same end again is the same end. Errors: as [Stream.Commit].
func (st *Stream) Finish(ctx context.Context, parts, said []strictjson.Raw) error {
	return st.end(ctx, FinishRequest{Parts: parts, about: said, streamed: true})
}

func aboutMessage(said []strictjson.Raw) (out store.Metadata) {
	for _, s := range said {
		out = append(out, json.RawMessage(s))
	}
	return out
}

// Fail ends the turn with an error.
func (st *Stream) Fail(ctx context.Context, text string) error {
	return st.end(ctx, FinishRequest{Error: reasonOf(text, "The model's stream failed.")})
}

// Abort ends the turn as one that its own side gave up.
func (st *Stream) Abort(ctx context.Context, reason string) error {
	return st.end(ctx, FinishRequest{Error: reasonOf(reason, "The model's stream was aborted."), aborted: true})
}

// reasonOf is a text that can be stored as it is, or another one for it.
func reasonOf(text, otherwise string) *string {
	if text == "" || len(text) > maxErrorText || model.CheckProse(text) != nil {
		return &otherwise
	}
	return &text
}

func (st *Stream) end(ctx context.Context, req FinishRequest) error {
	req.Fence, req.Token = st.Writer.Fence, st.Writer.Token
	req.Executor, req.ExpiresIn = string(st.executor), st.expiry.String()
	_, err := st.service.Finish(ctx, st.from, st.Writer.Topic, st.Writer.Turn, req)
	return err
}

// Committed tells whether a call of the turn is committed.
func (st *Stream) Committed() bool { return len(st.turn.Calls) > 0 }

// Leave lets go of the turn as it was committed: it is closed at the next
// sweep as one whose writer is gone. Errors: as [Stream.Renew].
func (st *Stream) Leave(ctx context.Context) error {
	return st.service.store.RenewStream(ctx, st.Tenant, st.Writer, 0)
}

// Abandon closes the turn as it was committed, since nobody can answer it, and
// says why. Without a committed call what it continued has failed. Errors:
// those of [store.Store.AbandonLive].
func (st *Stream) Abandon(ctx context.Context, why string) error {
	text := *reasonOf(why, "The model could not be asked.")
	req := FinishRequest{Error: &text}
	_, err := st.service.store.AbandonLive(ctx, st.Tenant, store.Ending{
		Turn: st.Writer.Turn, Topic: st.Writer.Topic, Fence: st.Writer.Fence, Token: st.Writer.Token, Content: req.content(),
		Error: text, Actor: st.from.Actor(), Channel: st.from.Channel,
	})
	return err
}

// Renew moves the turn's lease on. Errors: [store.Store.RenewStream]: the turn
// is not this stream's any more.
func (st *Stream) Renew(ctx context.Context) error {
	return st.service.store.RenewStream(ctx, st.Tenant, st.Writer, StreamLease)
}
