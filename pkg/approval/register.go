package approval

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// Registered is what registering a turn came to, and what was made of it.
type Registered struct {
	store.Registered
	Parts store.Parts
	Calls []store.NewCall
}

// Register takes an assistant turn: every call of it gets its verdict, and
// all of it is committed. With Live it opens the turn instead. Errors:
// [Invalid], and those of [store.Store.Register].
func (s *Service) Register(ctx context.Context, from Origin, topic model.TopicID, req TurnRequest) (Registered, error) {
	f := &faults{}
	r := s.registration(f, from, topic, req)
	parts := readParts(f, req.Parts, false)
	if err := f.err(); err != nil {
		return Registered{}, err
	}
	executor := f.executor(req.Executor)
	made, err := s.prepare(ctx, from.By.Tenant, parts, executor, &model.Turn{Continues: r.Continues})
	if err != nil {
		return Registered{}, err
	}
	r.Parts, r.Calls = made.parts, made.calls
	ctx, at := s.steps.Begin(ctx, "register")
	out, err := s.store.Register(ctx, r)
	about(at, out.Turn)
	at.End(err)
	if err == nil && out.Created && r.Continues != "" {
		s.steps.accepted.Add(ctx, 1)
	}
	return Registered{out, r.Parts, r.Calls}, err
}

// registration reads everything of a request but its parts.
func (s *Service) registration(f *faults, from Origin, topic model.TopicID, req TurnRequest) store.Registration {
	r := store.Registration{
		Tenant: from.By.Tenant, Topic: topic, Message: model.MessageID(req.MessageID),
		WhileOpen: f.whileOpenOfTurn(req), Content: req.content(), Actor: from.Actor(), Channel: from.Channel,
		Expiry: f.expiry(req.ExpiresIn, s.expiry),
		Turn: model.Turn{
			Execution: model.Execution(f.word("/execution", req.Execution,
				string(model.ExecuteWhenDecided), string(model.ExecuteEager))),
			RequestedBy: f.requester(req.RequestedBy, from.By), Sink: f.sink(req.Sink, from.By), Hold: f.hold(req.Hold),
			Traceparent: from.Traceparent,
		},
	}
	f.executor(req.Executor)
	if req.MessageID != "" {
		f.check("/messageId", model.CheckID(req.MessageID))
	}
	if req.Continues != "" {
		var err error
		if r.Continues, err = model.ParseUUID[model.TurnID](req.Continues); err != nil {
			f.add("/continues", "is no turn's id")
		}
	}
	lease := f.duration("/lease", req.Lease, DefaultLease, time.Second, MaxLease)
	switch {
	case req.Live && len(req.Parts) > 0:
		f.add("/parts", "come with finish, when a turn is opened live")
	case req.Live:
		r.Live = lease
	case req.Lease != "":
		f.add("/lease", "belongs to a live turn")
	case req.Parts == nil:
		f.add("/parts", "is missing")
	}
	return r
}

func (f *faults) expiry(text string, otherwise time.Duration) time.Duration {
	return f.duration("/expiresIn", text, otherwise, time.Second, maxExpiry)
}

// prepared are the rows of a turn's parts and calls.
type prepared struct {
	parts  store.Parts
	calls  []store.NewCall      // those that the turn does not have yet
	places map[model.CallID]int // where the calls that it has stand now
}

// prepare makes the rows of a turn's parts and calls: notes about edits come
// right behind the step-start, and each call gets its verdict. A call that the
// turn has already, since it was committed while the turn streamed, is
// recognized by its id and its input. Errors: [Invalid] when what was
// committed is not what the parts say; those of the store.
func (s *Service) prepare(
	ctx context.Context, tenant model.TenantID, parts []part, executor model.Executor, turn *model.Turn,
) (out prepared, err error) {
	ctx, at := s.steps.Begin(ctx, "evaluate")
	defer func() { at.End(err) }()
	notes, err := s.notes(ctx, tenant, turn.Continues)
	if err != nil {
		return out, err
	}
	out.parts = append(store.Parts{json.RawMessage(parts[0].raw)}, notes...)
	out.places = map[model.CallID]int{}
	j := judge{tenant: tenant, schemas: s.schemas, executor: executor}
	if names := toolNames(parts); len(names) > 0 {
		if j.catalog, err = s.store.Catalog(ctx, tenant, names); err != nil {
			return out, err
		}
	}
	for _, p := range parts[1:] {
		if p.call == nil {
			out.parts = append(out.parts, json.RawMessage(p.raw))
			continue
		}
		place := len(out.parts)
		out.parts = append(out.parts, nil)
		if has, err := committedCall(tenant, turn, p.call); err != nil {
			return out, err
		} else if has != nil {
			out.places[has.ID] = place
			continue
		}
		call := j.call(p.call, place)
		s.steps.judged(ctx, &call.Call)
		out.calls = append(out.calls, call)
	}
	if len(out.places) != len(turn.Calls) {
		return out, NewInvalid("/parts", "lack a call that was committed while the turn streamed")
	}
	return out, nil
}

// committedCall finds the call that a turn has under a tool call id, or nil.
func committedCall(tenant model.TenantID, turn *model.Turn, t *toolCall) (*model.Call, error) {
	for _, c := range turn.Calls {
		if c.ToolCallID != t.id {
			continue
		}
		if !c.Edited && !bytes.Equal(c.Digest, model.Digest(tenant, c.ID, t.tool, c.Tool.Definition, t.input)) {
			return nil, NewInvalid(t.pointer, "is another call than the one that was committed under its toolCallId")
		}
		return c, nil
	}
	return nil, nil
}

// notes are the parts in which the model is told of what people edited in the
// turn that is continued.
func (s *Service) notes(ctx context.Context, tenant model.TenantID, continues model.TurnID) (store.Parts, error) {
	if continues == "" {
		return nil, nil
	}
	notes, err := s.store.Notes(ctx, tenant, continues)
	if err != nil {
		return nil, err
	}
	var out store.Parts
	for _, n := range notes[continues] {
		out = append(out, noteOf(n))
	}
	return out, nil
}

func noteOf(n model.Note) json.RawMessage {
	out, err := strictjson.Marshal(struct {
		Type string     `json:"type"`
		Data model.Note `json:"data"`
	}{notePart, n})
	if err != nil {
		panic(err) // a note is text of ours and ids that were checked
	}
	return out
}

func toolNames(parts []part) []string {
	var out []string
	for _, p := range parts {
		if p.call != nil && !slices.Contains(out, p.call.tool) {
			out = append(out, p.call.tool)
		}
	}
	return out
}

// Finish ends a live turn: with its parts, of which every call gets its
// verdict, or with an error. Errors: [Invalid], and those of
// [store.Store.FinishLive].
func (s *Service) Finish(ctx context.Context, from Origin, topic model.TopicID, turn model.TurnID, req FinishRequest) (Registered, error) {
	f := &faults{}
	parts := readParts(f, req.Parts, req.streamed)
	executor, expiry := f.executor(req.Executor), f.expiry(req.ExpiresIn, s.expiry)
	e := store.Ending{
		Turn: turn, Topic: topic, Fence: req.Fence, Token: req.Token, Content: req.content(), Expiry: expiry, Aborted: req.aborted,
		Actor: from.Actor(), Channel: from.Channel,
	}
	f.ending(req, &e)
	if err := f.err(); err != nil {
		return Registered{}, err
	}
	live, err := s.store.Turn(ctx, from.By.Tenant, turn)
	if err != nil {
		return Registered{}, err
	}
	if live.Live == nil { // the same ending again, or too late: the store knows
		live = &model.Turn{Continues: live.Continues}
	}
	if e.Error == "" {
		made, err := s.prepare(ctx, from.By.Tenant, parts, executor, live)
		if err != nil {
			return Registered{}, err
		}
		e.Parts, e.About, e.Calls, e.Places = made.parts, aboutMessage(req.about), made.calls, made.places
	}
	ctx, at := s.steps.Begin(ctx, "register")
	out, err := s.store.FinishLive(ctx, from.By.Tenant, e)
	about(at, out.Turn)
	at.End(err)
	return Registered{out, e.Parts, e.Calls}, err
}

// maxErrorText bounds the text with which a live turn fails, in bytes.
const maxErrorText = 4000

func (f *faults) ending(req FinishRequest, e *store.Ending) {
	switch {
	case req.Error != nil && req.Parts != nil:
		f.add("/error", "must not come with parts")
	case req.Error != nil && (*req.Error == "" || len(*req.Error) > maxErrorText):
		f.add("/error", "must have 1 to %d bytes", maxErrorText)
	case req.Error != nil:
		f.check("/error", model.CheckProse(*req.Error))
		e.Error = *req.Error
	case req.Parts == nil:
		f.add("/parts", "is missing; send the turn's parts, or an error")
	}
	if req.Fence < 1 {
		f.add("/fence", "must be the one that opening the turn gave")
	}
	if req.Token == "" {
		f.add("/token", "is missing")
	}
}
