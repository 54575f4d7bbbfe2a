package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/services/api/view"
)

// TurnAnswer is what a registered turn looks like.
type TurnAnswer struct {
	Topic   view.TopicBody `json:"topic"`
	Turn    view.Turn      `json:"turn"`
	Message strictjson.Raw `json:"message" doc:"The turn's message, a UIMessage of the AI SDK."`
	Fence   int64          `json:"fence,omitzero" doc:"Of a turn that was opened live."`
	Token   string         `json:"token,omitzero" doc:"Of a turn that was opened live: what ends it."`
}

func (a *API) registerTurn(r *request, in approval.TurnRequest) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	out, err := a.cases.Register(r.Context(), r.origin(), topic, in)
	if err != nil && out.Open != nil {
		return answer{}, r.explainOpen(err, out.Open)
	}
	if goesOn(err) {
		return answer{}, r.explainTurn(err, model.TurnID(in.Continues))
	}
	if err != nil {
		return answer{}, err
	}
	body, err := r.turnAnswer(out)
	if err != nil {
		return answer{}, err
	}
	if live := out.Turn.Live; live != nil && in.Live {
		body.Fence, body.Token = live.Fence, live.Token
	}
	return created(out.Created, body), nil
}

// goesOn tells whether an error is about the turn that a request continues.
func goesOn(err error) bool {
	return errors.Is(err, model.ErrContinuationAccepted) || errors.Is(err, model.ErrContinuationEnded) ||
		errors.Is(err, model.ErrTurnOpen) || errors.Is(err, model.ErrTurnEnded)
}

func (a *API) finishTurn(r *request, in approval.FinishRequest) (answer, error) {
	topic, err := r.topicID()
	if err != nil {
		return answer{}, err
	}
	turn, err := idIn[model.TurnID](r, "turn")
	if err != nil {
		return answer{}, err
	}
	out, err := a.cases.Finish(r.Context(), r.origin(), topic, turn, in)
	if err != nil {
		return answer{}, err
	}
	body, err := r.turnAnswer(out)
	return ok(body), err
}

// turnAnswer shows what registering came to. A turn that was just made is
// shown from what was committed; everything else is read again.
func (r *request) turnAnswer(out approval.Registered) (TurnAnswer, error) {
	topic, err := r.topicNow(out.Topic, out.Turn)
	if err != nil {
		return TurnAnswer{}, err
	}
	body := TurnAnswer{Topic: topic, Turn: view.NewTurn(out.Turn, out.Topic.Version)}
	if whole := len(out.Calls) == len(out.Turn.Calls); out.Created && out.Turn.Step == 0 && out.Parts != nil && whole {
		body.Message = strictjson.Raw(uimessage.Signed(committed(out), r.api.Sign))
		return body, nil
	}
	h, err := r.api.Store.Messages(r.Context(), r.tenant(), out.Turn.Topic, store.Range{ID: out.Turn.Message})
	if err != nil {
		return body, err
	}
	if len(h.Messages) != 1 {
		return body, fmt.Errorf("the message of turn %s is gone", out.Turn.ID)
	}
	body.Message = strictjson.Raw(uimessage.Signed(h.Messages[0], r.api.Sign))
	return body, nil
}

// committed is the message of a turn that was just made.
func committed(out approval.Registered) store.Message {
	turn := store.MessageTurn{Turn: out.Turn, Parts: out.Parts}
	for i, c := range out.Turn.Calls {
		n := out.Calls[i]
		turn.Calls = append(turn.Calls, store.MessageCall{Call: c, Dynamic: n.Dynamic, Extra: n.Extra, Input: n.Input})
	}
	return store.Message{ID: out.Turn.Message, Role: "assistant", Turns: []store.MessageTurn{turn}}
}

// topicNow shows a topic from its row, where its open turns are known without
// reading them: there is none, or the one given is the only one.
func (r *request) topicNow(row model.Topic, turn *model.Turn) (view.TopicBody, error) {
	open := turn != nil && !turn.State().Ended()
	switch n := row.Counters.Open(); {
	case n == 0 && !open:
		return view.NewTopicBody(store.TopicView{Topic: row}), nil
	case n == 1 && open:
		return view.NewTopicBody(store.TopicView{Topic: row, Turns: []store.TurnView{
			{ID: turn.ID, State: turn.State(), Message: turn.Message, OpenApprovals: turn.OpenApprovals, OpenCalls: turn.OpenCalls},
		}}), nil
	}
	t, err := r.api.Store.Topic(r.Context(), r.tenant(), row.ID)
	if err != nil {
		return view.TopicBody{}, err
	}
	return view.NewTopicBody(t), nil
}

func (a *API) getTurn(r *request) (answer, error) {
	id, err := idIn[model.TurnID](r, "turn")
	if err != nil {
		return answer{}, err
	}
	wait, err := r.wait()
	if err != nil {
		return answer{}, err
	}
	after, err := r.version("after")
	if err != nil {
		return answer{}, err
	}
	if r.param("after") == "" {
		after = math.MaxInt64
	}
	t, topic, err := a.Store.TurnInTopic(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	if err := r.atLeast(t.Topic); err != nil {
		return answer{}, err
	}
	if wait > 0 {
		err = r.awaitTurn(wait, after, &t, &topic)
	} else {
		t, topic, err = a.Store.TurnInTopic(r.Context(), r.tenant(), id)
	}
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewTurn(t, topic.Version)), nil
}

// awaitTurn waits until the turn is another than it was, or the topic has a
// version above after, and leaves what it read last. A turn that needs
// nothing more but its next turn is not waited for.
func (r *request) awaitTurn(wait time.Duration, after int64, t **model.Turn, topic *model.Topic) error {
	before := fingerprint(*t)
	return r.await(wait, (*t).Topic, *t, func() (bool, error) {
		var err error
		if *t, *topic, err = r.api.Store.TurnInTopic(r.Context(), r.tenant(), (*t).ID); err != nil {
			return false, err
		}
		settled := (*t).State().Ended() || (*t).State() == model.TurnContinuing
		return settled || topic.Version > after || !bytes.Equal(before, fingerprint(*t)), nil
	})
}

// fingerprint is what of a turn can change by itself; a lease that is renewed
// is no change.
func fingerprint(t *model.Turn) []byte {
	v := view.NewTurn(t, 0)
	v.Hold, v.LiveUntil = nil, time.Time{}
	out, err := strictjson.Marshal(v)
	if err != nil {
		panic(err) // texts of ours
	}
	return out
}
