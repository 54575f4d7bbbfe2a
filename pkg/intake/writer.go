package intake

import (
	"context"
	"errors"
	"strings"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
)

// Writer takes one stream into its live turn. It is for one goroutine.
type Writer struct {
	stream *approval.Stream
	answer func(...uistream.Chunk) error
	step   uistream.Step
	begun  bool
	chunks *publisher
}

// NewWriter begins to take a stream. answer is told what Countersign adds: the
// committed form of each call, and what is asked about it. What goes to the
// windows is published under ctx, which is to outlive the stream's sender.
func NewWriter(ctx context.Context, chunks Chunks, st *approval.Stream, answer func(...uistream.Chunk) error) *Writer {
	return &Writer{stream: st, answer: answer, chunks: publish(ctx, chunks, st)}
}

// Close ends the writing. whole tells whether the turn was ended with its
// stream: only then is it said that nothing follows.
func (w *Writer) Close(whole bool) { w.chunks.end(whole) }

// Take takes one chunk's text; done tells that it was the last. A chunk that
// is refused changes nothing, and ends the stream: its turn stays live. Errors
// name the member that is wrong; those of [approval.Stream] besides.
func (w *Writer) Take(ctx context.Context, line []byte) (done bool, err error) {
	c, err := uistream.Parse(line)
	if err != nil {
		return false, err
	}
	if err := w.check(c); err != nil {
		return false, err
	}
	call, err := w.step.Add(c)
	if err != nil {
		return false, err
	}
	about, says := c.About()
	if c.Type == uistream.Start && !says {
		return false, nil
	}
	if !call { // a call's commit checks it with the rest
		if err := w.checkPart(); err != nil {
			return false, err
		}
	}
	w.begin()
	switch {
	case c.Type == uistream.Start: // each window has its own
		return false, w.show(about)
	case c.Type == uistream.StartStep:
		return false, nil
	case call:
		return false, w.commit(ctx)
	case w.step.Ended():
		return true, w.end(ctx, c)
	case c.Type == uistream.FinishStep: // each window is told when its calls have run
		return false, nil
	}
	return false, w.show(c)
}

func (w *Writer) check(c uistream.Chunk) error {
	switch {
	case strings.HasPrefix(c.Type, reserved):
		return errReserved
	case c.Type == uistream.Start && c.MessageID != "" && c.MessageID != string(w.stream.Message):
		return errors.New("messageId: is not that of this turn's message, which is " + string(w.stream.Message))
	}
	return nil
}

// checkPart refuses a part that the end of the stream would refuse, before
// anybody is shown it.
func (w *Writer) checkPart() error {
	part, index, err := w.step.Touched()
	if err != nil || part == nil {
		return err
	}
	return w.stream.Check(part, index)
}

// reserved begins the types of data chunks that are ours alone.
const reserved = "data-countersign"

var errReserved = errors.New("type: is a name that Countersign keeps for itself")

// begin shows the step's start, and what stands behind it, once.
func (w *Writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	_ = w.show(uistream.Chunk{Type: uistream.StartStep})
	for _, note := range w.stream.Notes {
		if chunks, err := uistream.Replay([]strictjson.Raw{note}, uistream.V7); err == nil {
			_ = w.show(chunks...)
		}
	}
}

// show gives chunks to the windows. Where a message begins and ends, each
// window is told by whoever serves it.
func (w *Writer) show(chunks ...uistream.Chunk) error {
	for _, c := range chunks {
		line, err := c.Encode()
		if err != nil {
			return err
		}
		w.chunks.add(line)
	}
	return nil
}

// commit commits the call that the step has completed, and only then shows
// it, with what is asked about it.
func (w *Writer) commit(ctx context.Context) error {
	parts, err := w.step.Parts()
	if err != nil {
		return err
	}
	committed, err := w.stream.Commit(ctx, parts, w.step.Metadata())
	if err != nil {
		return err
	}
	chunks, err := uistream.Replay(committed, uistream.V7)
	if err != nil {
		return err
	}
	if err := w.show(chunks...); err != nil {
		return err
	}
	return w.answer(chunks...)
}

// end ends the turn as its stream did.
func (w *Writer) end(ctx context.Context, c uistream.Chunk) error {
	switch c.Type {
	case uistream.Error:
		return w.stream.Fail(ctx, c.ErrorText)
	case uistream.Abort:
		return w.stream.Abort(ctx, c.Reason)
	}
	parts, err := w.step.Parts()
	if err != nil {
		return err
	}
	if err := w.stream.Finish(ctx, parts, w.step.Metadata()); err != nil {
		return err
	}
	if about, says := c.About(); says {
		if err := w.show(about); err != nil {
			return err
		}
	}
	return w.show(c) // how it ended; the windows are told when all of it has
}
