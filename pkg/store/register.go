package store

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// WhileOpen says what registering does when a turn of the topic is open.
type WhileOpen string

// The answers: refuse, end the open turns in the same commit, or add an
// independent turn.
const (
	WhileOpenBlock     WhileOpen = "block"
	WhileOpenSupersede WhileOpen = "supersede"
	WhileOpenParallel  WhileOpen = "parallel"
	// Of a message alone: it is there at once, and its reply waits until the
	// open turns are over.
	WhileOpenQueue WhileOpen = "queue"
)

// Registration is a turn as a chat backend hands it over, validated, with
// the policies' verdict on each call.
type Registration struct {
	Tenant    model.TenantID
	Topic     model.TopicID
	Message   model.MessageID // "": the continued turn's message, or a new one
	Continues model.TurnID    // "" for a turn that answers no continuation
	WhileOpen WhileOpen
	Content   []byte // SHA-256 over what was sent; equal content is the same registration

	Turn  model.Turn // Execution, RequestedBy, Sink, Hold and Traceparent are taken over
	Parts Parts
	Calls []NewCall

	Live    time.Duration // > 0: open the turn live, with this lease
	Expiry  time.Duration // of the approvals
	Actor   string
	Channel string
}

// NewCall is a call of a registration.
type NewCall struct {
	Call    model.Call // with State, Outcome, ErrorText, Approval, AllowedBy as the policies said
	Input   []byte
	Dynamic bool
	Extra   []byte // the part's other fields, a JSON object, or nil
}

// Registered is what a registration came to.
type Registered struct {
	Created bool // false: the same registration was committed before
	Turn    *model.Turn
	Topic   model.Topic
	Open    *OpenTurn // with ErrTurnOpen: what is in the way
}

// Register commits a turn with its calls, their approvals with the policies'
// verdicts, the runs of those that are allowed, and the continuation if every
// call is settled already. The same registration again gives the rows as they
// are now. Errors: [model.ErrTurnConflict], [model.ErrTurnOpen],
// [model.ErrContinuationAccepted], [model.ErrContinuationEnded],
// [model.ErrMessageConflict], [model.ErrNotFound] for an unknown turn to
// continue, [model.ErrInvalid] for a tool call id that the message has.
func (s *Store) Register(ctx context.Context, r Registration) (Registered, error) {
	return s.register.submit(ctx, r.Tenant, registerItem{r, model.NewTurnID(), model.NewMessageID()})
}

// registerItem is a registration with the ids that it gets if it is new. They
// are made before the batch, so that a retry makes the same turn.
type registerItem struct {
	Registration
	id      model.TurnID
	message model.MessageID
}

func (s *Store) registerAll(ctx context.Context, tenant model.TenantID, items []registerItem) ([]outcome[Registered], error) {
	var out []outcome[Registered]
	err := transact(ctx, s.hot, "register", func(ctx context.Context, t *tx) error {
		r := &registrar{unit: newUnit(tenant), items: items, found: make([]identified, len(items))}
		r.inserts = &inserts{}
		if err := t.trip(ctx, r.makeTopics); err != nil {
			return err
		}
		if !r.allNew() {
			if err := t.trip(ctx, r.read); err != nil {
				return err
			}
			if r.again {
				return errRepeat
			}
		}
		if err := r.readSuspects(ctx, t, r.topics); err != nil {
			return err
		}
		out = r.judge()
		changed, err := r.dirty()
		switch {
		case err != nil:
			return err
		case !changed:
			return t.confirm(ctx, nothing)
		}
		if err := t.commit(ctx, r.write); err != nil {
			return err
		}
		for i := range out {
			if turn := out[i].value.Turn; turn != nil && r.topics[turn.Topic] != nil {
				out[i].value.Topic = *r.topics[turn.Topic]
			}
		}
		s.changed(r.changes())
		return nil
	})
	return out, err
}

// registrar is one register transaction.
type registrar struct {
	*unit
	items    []registerItem
	found    []identified // per item, what its identity names already
	messages map[messageKey]*messageRow
	made     []newTurn
	again    bool
}

// identified is what the database has under an item's identity.
type identified struct {
	turn    model.TurnID
	content []byte
	message model.MessageID // the message that the item is about
	row     *messageRow     // nil: the message does not exist
	used    []string        // tool call ids of the item that the message has
}

type messageKey struct {
	topic   model.TopicID
	message model.MessageID
}

type messageRow struct {
	role  string
	steps int  // the next turn's place
	void  bool // all of its turns were discarded: anybody may begin it anew
}

// judge answers the items in order, each as if those before it had been
// committed.
func (r *registrar) judge() []outcome[Registered] {
	out := make([]outcome[Registered], len(r.items))
	r.messages = map[messageKey]*messageRow{}
	made := map[identity]newTurn{}
	for i := range r.items {
		value, err := r.one(&r.items[i], &r.found[i], made)
		out[i] = outcome[Registered]{value, err}
	}
	return out
}

// identity is what makes two registrations the same turn.
type identity struct {
	topic     model.TopicID
	message   model.MessageID
	continues model.TurnID
}

// newTurn is a turn that this very batch makes.
type newTurn struct {
	turn  *model.Turn
	parts Parts
	calls []NewCall
	// content is the registration's, to know the same one in the same batch.
	content []byte
}

func (it *registerItem) newTurn(t *model.Turn) newTurn {
	return newTurn{t, it.Parts, it.Calls, it.Content}
}

func (r *registrar) one(it *registerItem, f *identified, batch map[identity]newTurn) (Registered, error) {
	topic := r.topics[it.Topic]
	message := it.resolveMessage(f)
	key := identity{it.Topic, message, it.Continues}
	if f.turn != "" {
		return r.replay(it, r.turns[f.turn], f.content, *topic)
	}
	if m, ok := batch[key]; ok {
		return r.replay(it, m.turn, m.content, *topic)
	}
	row := r.messageRow(messageKey{it.Topic, message}, f.row)
	if err := r.checkMessage(it, message, row, f); err != nil {
		return Registered{}, err
	}
	continued, err := r.continued(it)
	if err != nil {
		return Registered{}, err
	}
	goesOnFrom := func(t *model.Turn) bool { return t == continued }
	if open, err := r.makeWay(it.Topic, it.WhileOpen, goesOnFrom); err != nil {
		return Registered{Topic: *topic, Open: open}, err
	}
	if continued != nil {
		if err := continued.Accept(it.id, r.now); err != nil {
			return Registered{}, err
		}
	}
	turn := r.insert(it, topic, message, row)
	batch[key] = it.newTurn(turn)
	return Registered{Created: true, Turn: turn, Topic: *topic}, nil
}

// continued finds the turn that an item goes on from, or nil. Whether it can
// is known before anything makes way for the item: who is refused ends
// nothing.
func (r *registrar) continued(it *registerItem) (*model.Turn, error) {
	if it.Continues == "" {
		return nil, nil
	}
	t := r.turns[it.Continues]
	if t == nil || t.Topic != it.Topic {
		return nil, model.ErrNotFound
	}
	return t, t.Acceptable()
}

func (it *registerItem) resolveMessage(f *identified) model.MessageID {
	switch {
	case it.Message != "":
		return it.Message
	case f.message != "":
		return f.message
	}
	return it.message
}

// replay answers a registration whose identity is taken. A live turn is never
// the same as another: of two nodes that open one, one must stop.
func (r *registrar) replay(it *registerItem, turn *model.Turn, content []byte, topic model.Topic) (Registered, error) {
	switch {
	case turn.ID == it.id:
		return Registered{Created: true, Turn: turn, Topic: topic}, nil
	case it.Live > 0 && it.Continues != "":
		return Registered{}, model.ErrContinuationAccepted
	case it.Live > 0 || !bytes.Equal(content, it.Content):
		return Registered{}, model.ErrTurnConflict
	}
	return Registered{Turn: turn, Topic: topic}, nil
}

func (r *registrar) messageRow(key messageKey, found *messageRow) *messageRow {
	if row := r.messages[key]; row != nil {
		return row
	}
	if found != nil {
		r.messages[key] = found
	}
	return found
}

// checkMessage refuses a turn that does not fit its message: a message of a
// person, a message that another turn began, a tool call id that it has.
func (r *registrar) checkMessage(it *registerItem, message model.MessageID, row *messageRow, f *identified) error {
	if len(f.used) > 0 {
		return &DuplicateToolCall{f.used[0]}
	}
	if row == nil {
		return nil
	}
	continued := r.turns[it.Continues]
	if row.role == "assistant" && row.void {
		return nil
	}
	if row.role != "assistant" || continued == nil || continued.Message != message {
		return model.ErrMessageConflict
	}
	return nil
}

// DuplicateToolCall says which tool call id a message has already. It is a
// [model.ErrInvalid].
type DuplicateToolCall struct{ ToolCallID string }

func (e *DuplicateToolCall) Error() string {
	return "the message has a call with the toolCallId " + e.ToolCallID + " already"
}

func (e *DuplicateToolCall) Unwrap() error { return model.ErrInvalid }

// insert makes the turn in memory; write puts it into the tables.
func (r *registrar) insert(it *registerItem, topic *model.Topic, message model.MessageID, row *messageRow) *model.Turn {
	turn := it.Turn
	turn.Tenant, turn.ID, turn.Topic, turn.Message, turn.Continues = r.tenant, it.id, it.Topic, message, it.Continues
	if row == nil {
		row = &messageRow{role: "assistant"}
		r.messages[messageKey{it.Topic, message}] = row
		topic.Messages++
		r.inserts.assistant(it.Topic, message, topic.Messages, it.Content)
	}
	turn.Step = row.steps
	row.steps++
	row.void = false
	if it.Live > 0 {
		turn.Streaming = true
		turn.Live = &model.Live{Fence: 1, Token: model.NewToken(), LeaseUntil: r.now.Add(it.Live)}
	}
	if turn.Hold != nil {
		hold := *turn.Hold
		hold.Until = r.now.Add(hold.Lease)
		turn.Hold = &hold
	}
	turn.Calls = r.admit(it.Topic, it.Calls, it.Expiry)
	r.turns[turn.ID], r.fresh[turn.ID] = &turn, true
	turn.Begin(r.now)
	turn.AuditRegistration(it.Actor, it.Channel, r.now)
	r.made = append(r.made, it.newTurn(&turn))
	return &turn
}

// admit gives the calls of a registration their times, and asks about those
// that may repeat another. What refused one may quote its input, in which
// anything can stand.
func (u *unit) admit(topic model.TopicID, calls []NewCall, expiry time.Duration) []*model.Call {
	out := make([]*model.Call, len(calls))
	for i := range calls {
		c := calls[i].Call
		c.ErrorText = storable(c.ErrorText)
		u.suspect(topic, &c, calls[i].Input)
		if c.Approval != nil {
			a := *c.Approval
			a.RequestedAt, a.ExpiresAt = u.now, u.now.Add(expiry)
			if a.State != model.ApprovalRequested {
				a.DecidedAt = u.now
			}
			c.Approval = &a
		}
		out[i] = &c
	}
	return out
}

// write inserts the turns as the whole batch left them: an item may have
// ended or continued a turn that one before it made.
func (r *registrar) write(b *pgx.Batch) {
	for _, m := range r.made {
		r.inserts.turn(m.turn, m.parts, m.content)
		r.inserts.addCalls(m.turn, m.turn.Calls, m.calls)
	}
	r.leaveUntouched(b)
	r.saveChanged(b)
}

// leaveUntouched lets go of the topics of items that were refused, or there
// before: they get no version, and one that was made for them goes again.
func (r *registrar) leaveUntouched(b *pgx.Batch) {
	touched := map[model.TopicID]bool{}
	for _, t := range r.turns {
		touched[t.Topic] = touched[t.Topic] || t.Changed
	}
	var empty []string
	for id, topic := range r.topics {
		if touched[id] {
			continue
		}
		if topic.Version == 0 {
			empty = append(empty, string(id))
		}
		delete(r.topics, id)
	}
	if len(empty) > 0 {
		b.Queue(`delete from topics where tenant_id = $1 and topic_id = any($2::text[])`, r.tenant, empty)
	}
}
