package approval

import (
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Defaults and bounds of a turn's times. A live caller is expected to show
// itself within minutes; who needs longer parks the turn.
const (
	DefaultLease    = time.Minute
	MaxLease        = 10 * time.Minute
	maxExpiry       = 366 * 24 * time.Hour
	minAcceptWithin = time.Second
	maxAcceptWithin = model.DeadLetterAfter
)

// duration reads a length of time; "" is the default.
func (f *faults) duration(pointer, text string, otherwise, least, most time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		f.add(pointer, `must be a duration such as "90s" or "24h"`)
	case d < least || d > most:
		f.add(pointer, "must be between %v and %v", least, most)
	}
	return d
}

// word reads one of several words; "" is the first of them.
func (f *faults) word(pointer, text string, words ...string) string {
	if text == "" {
		return words[0]
	}
	checkWord(f, pointer, text, words...)
	return text
}

func (f *faults) whileOpen(text string) store.WhileOpen {
	return store.WhileOpen(f.word("/whileOpen", text,
		string(store.WhileOpenBlock), string(store.WhileOpenSupersede), string(store.WhileOpenParallel)))
}

// whileOpenOfTurn is [faults.whileOpen] for a turn. One that continues another
// goes on with what was open already: that others are does not concern it.
func (f *faults) whileOpenOfTurn(req TurnRequest) store.WhileOpen {
	if req.WhileOpen == "" && req.Continues != "" {
		return store.WhileOpenParallel
	}
	return f.whileOpen(req.WhileOpen)
}

// whileOpenOf is [faults.whileOpen] for a message, whose reply can also wait.
func (f *faults) whileOpenOf(text string, reply bool) store.WhileOpen {
	if reply && text == string(store.WhileOpenQueue) {
		return store.WhileOpenQueue
	}
	return f.whileOpen(text)
}

func (f *faults) executor(text string) model.Executor {
	return model.Executor(f.word("/executor", text, string(model.ExecutorWorker), string(model.ExecutorCaller)))
}

func (f *faults) hold(h *HoldRequest) *model.Hold {
	if h == nil {
		return nil
	}
	return &model.Hold{
		Lease:   f.duration("/hold/lease", h.Lease, DefaultLease, time.Second, MaxLease),
		OnLapse: model.OnLapse(f.word("/hold/onLapse", h.OnLapse, string(model.LapseDeny), string(model.LapsePark))),
	}
}

// requester reads on whose behalf a turn acts: whom the credential names,
// where the turn names nobody, so that leaving it out is no way around four
// eyes.
func (f *faults) requester(text string, by model.Principal) string {
	if text == "" {
		return by.Subject
	}
	f.check("/requestedBy", model.CheckID(text))
	return text
}

// sink reads where continuations go; nil is the key's own sink, or none.
func (f *faults) sink(s *SinkRequest, by model.Principal) model.Sink {
	if s == nil {
		if by.Sink != nil {
			return *by.Sink
		}
		return model.Sink{Type: model.SinkNone, AcceptWithin: model.DefaultAcceptWithin}
	}
	out, err := ReadSink("/sink", s)
	if err != nil {
		f.list = append(f.list, err.Faults...)
	}
	return out
}

// ReadSink reads a sink that stands at pointer; the error is nil, not a nil
// error, when it is right.
func ReadSink(pointer string, s *SinkRequest) (model.Sink, *Invalid) {
	f := &faults{}
	out := model.Sink{
		Type: model.SinkType(s.Type), URL: s.URL, Name: s.Name,
		AcceptWithin: f.duration(pointer+"/acceptWithin", s.AcceptWithin, model.DefaultAcceptWithin, minAcceptWithin, maxAcceptWithin),
	}
	switch out.Type {
	case model.SinkNone:
	case model.SinkWebhook:
		f.target(pointer+"/url", s.URL)
	case model.SinkJetStream:
		f.check(pointer+"/name", model.CheckID(s.Name))
	case model.SinkModel:
		out.Ask = f.ask(pointer, s)
	default:
		checkWord(f, pointer+"/type", s.Type, "none", "webhook", "jetstream", "model")
	}
	if s.URL != "" && out.Type != model.SinkWebhook {
		f.add(pointer+"/url", "belongs to a webhook alone")
	}
	if s.Name != "" && out.Type != model.SinkJetStream {
		f.add(pointer+"/name", "belongs to a JetStream sink alone")
	}
	if out.Type != model.SinkModel && (s.Model != "" || s.System != "" || s.Tools != nil) {
		f.add(pointer, "has model, system or tools, which belong to a model sink alone")
	}
	if len(f.list) > 0 {
		return out, &Invalid{f.list}
	}
	return out, nil
}

// The bounds of what a turn may say about the model loop; texts in bytes.
const (
	maxModelName    = 256
	maxSystemPrompt = 32 << 10
	maxModelTools   = 128
)

// ask reads how the model loop is to ask.
func (f *faults) ask(pointer string, s *SinkRequest) model.Ask {
	f.check(pointer+"/model", model.CheckText(s.Model))
	f.check(pointer+"/system", model.CheckProse(s.System))
	switch {
	case len(s.Model) > maxModelName:
		f.add(pointer+"/model", "must not be longer than %d bytes", maxModelName)
	case len(s.System) > maxSystemPrompt:
		f.add(pointer+"/system", "must not be longer than %d bytes", maxSystemPrompt)
	case s.Tools != nil && (len(s.Tools) == 0 || len(s.Tools) > maxModelTools):
		f.add(pointer+"/tools", "must name 1 to %d tools, or be left out for all", maxModelTools)
	}
	for i, name := range s.Tools {
		f.check(fmt.Sprintf("%s/tools/%d", pointer, i), model.CheckID(name))
	}
	return model.Ask{Model: s.Model, System: s.System, Tools: s.Tools}
}

// RequestOf asks for a sink that a turn has.
func RequestOf(s model.Sink) *SinkRequest {
	return &SinkRequest{
		Type: string(s.Type), URL: s.URL, Name: s.Name, AcceptWithin: s.AcceptWithin.String(),
		Model: s.Ask.Model, System: s.Ask.System, Tools: s.Ask.Tools,
	}
}

// maxURL bounds a URL, in bytes.
const maxURL = 2048

// target checks a URL that this installation would call.
func (f *faults) target(pointer, url string) {
	if err := CheckTarget(url); err != nil {
		f.add(pointer, "%s", err)
	}
}

// CheckTarget refuses a URL that can never be called. Where its host leads is
// checked when it is connected to.
func CheckTarget(url string) error {
	if len(url) > maxURL {
		return errURLTooLong
	}
	if err := model.CheckText(url); err != nil {
		return err
	}
	if _, err := egress.Check(url); err != nil {
		return errNoTarget
	}
	return nil
}
