package model

import (
	"context"
	"time"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/intake"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uistream"
)

// try asks the provider once and takes what it says into the turn. Errors: a
// [*Failure] of the provider's; others are ours, or say that the turn is not
// this worker's any more.
func (a *answering) try(ctx context.Context) error {
	request, err := a.request(ctx)
	if err != nil {
		return err
	}
	if err := failpoint.Hit(ctx, failpoint.AskBefore); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	defer context.AfterFunc(a.hard, cancel)()
	ctx, span := a.chat(ctx, request)
	w := intake.NewWriter(context.WithoutCancel(ctx), a.bus, a.stream, func(...uistream.Chunk) error { return nil })
	t := newTranslation(request, w)
	err = a.listen(ctx, t, a.provider.stream(ctx, request))
	w.Close(err == nil)
	a.chatted(ctx, span, t, err)
	return err
}

// longest bounds one answer of a model: whatever it still says after that is
// not worth waiting for.
const longest = 30 * time.Minute

// listen takes deltas until the answer is whole.
func (a *answering) listen(ctx context.Context, t *translation, deltas <-chan delta) error {
	defer func() {
		go func() {
			for range deltas { // its sender ends with ctx
				continue
			}
		}()
	}()
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	silence := time.NewTimer(a.o.Silent)
	defer silence.Stop()
	for {
		select {
		case <-a.hard.Done():
			return errStopping
		case <-silence.C:
			return &Failure{Text: "it said nothing for " + a.o.Silent.String()}
		case <-renew.C:
			if err := a.renew(ctx); err != nil {
				return err
			}
		case d, more := <-deltas:
			silence.Reset(a.o.Silent)
			switch {
			case !more:
				return t.end(ctx)
			case d.err != nil && a.hard.Err() != nil:
				return errStopping
			case d.err != nil:
				return d.err
			}
			if done, err := t.take(ctx, d); done || err != nil {
				return err
			}
		}
	}
}

// request is what the provider is asked.
func (a *answering) request(ctx context.Context) (request, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	h, err := a.store.Messages(ctx, a.turn.Tenant, a.turn.Topic, store.Range{})
	if err != nil {
		return request{}, err
	}
	tools, err := a.tools(ctx)
	if err != nil {
		return request{}, err
	}
	r := request{model: a.ask.Model, tools: tools, conversation: string(a.turn.Topic)}
	r.messages, r.used, err = prompt(a.ask.System, h.Messages, a.turn, a.stream.Notes)
	return r, err
}
