package aisdk

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uistream"
	"github.com/countersign/countersign/services/api/approval"
)

// Chunks carries the streams of live turns; *bus.Bus does.
type Chunks interface {
	PublishChunks(ctx context.Context, c bus.Chunks) error
	FollowChunks(ctx context.Context, tenant model.TenantID, turn model.TurnID, handle func(bus.Chunks) bool) error
}

// Intake takes the stream of a backend's model into its live turn.
type Intake struct {
	Chunks Chunks
	Log    *slog.Logger
}

// FenceHeader tells a writer the fence that its stream holds.
const FenceHeader = "Countersign-Fence"

// Take reads a stream of chunks until it ends, and answers with what
// Countersign adds: the committed form of each call, and what is asked about
// it. A call is committed before anybody is shown it (I7). A chunk that cannot
// be taken ends the answer with an error chunk and changes nothing; the turn
// stays live, and its writer may begin the stream anew, or fail it. A stream
// that breaks off leaves the turn as it was last committed.
func (in *Intake) Take(w http.ResponseWriter, r *http.Request, st *approval.Stream) error {
	rc := http.NewResponseController(w)
	// The answer begins while the request's body still comes, and both last.
	// What is left of the body then is nobody's, so the connection ends, too.
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(FenceHeader, strconv.FormatInt(st.Writer.Fence, 10))
	w.WriteHeader(http.StatusOK)
	_ = rc.Flush()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t := &taking{stream: st, chunks: publish(context.WithoutCancel(ctx), in.Chunks, st), w: w, rc: rc}
	lines := read(ctx, r.Body)
	defer func() { // the server must not take the body back while it is read
		cancel()
		_ = rc.SetReadDeadline(time.Now())
		for range lines { // what comes now comes too late
			continue
		}
	}()
	err := t.run(ctx, lines)
	defer t.chunks.end(err == nil)
	if err == nil || errors.Is(err, errBrokenOff) || ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, model.ErrUnavailable) {
		in.Log.WarnContext(ctx, "a stream could not be taken", "turn", st.Writer.Turn, "error", err)
	}
	_ = t.answer(uistream.Chunk{Type: uistream.Error, ErrorText: explain(err)})
	return nil
}

// errBrokenOff is that a stream stopped without saying how it ends.
var errBrokenOff = errors.New("the stream broke off")

// explain says what was wrong.
func explain(err error) string {
	if errors.Is(err, model.ErrUnavailable) {
		return "This node cannot go on with the stream now; begin it anew."
	}
	return err.Error()
}

// taking is one stream on its way in.
type taking struct {
	stream *approval.Stream
	step   uistream.Step
	begun  bool
	chunks *publisher
	w      io.Writer
	rc     *http.ResponseController
}

// incoming is a line that was read, or why there is none.
type incoming struct {
	line []byte
	err  error
}

// read reads a body line by line, so that its reader can wait for something
// else meanwhile.
func read(ctx context.Context, body io.Reader) <-chan incoming {
	out := make(chan incoming)
	go func() {
		defer close(out)
		reader := uistream.NewReader(body)
		for {
			line, err := reader.Next()
			select {
			case out <- incoming{append([]byte(nil), line...), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// run takes chunks until the stream ends, and keeps the turn's lease.
func (t *taking) run(ctx context.Context, lines <-chan incoming) error {
	renew := time.NewTicker(approval.StreamLease / 3)
	defer renew.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-daemon.Draining(ctx):
			return errStopping
		case <-renew.C:
			if err := t.stream.Renew(ctx); err != nil {
				return err
			}
		case in := <-lines:
			switch {
			case errors.Is(in.err, io.EOF):
				return errBrokenOff
			case in.err != nil:
				return in.err
			}
			if done, err := t.take(ctx, in.line); done || err != nil {
				return err
			}
		}
	}
}

var errStopping = errors.New("this node is stopping: begin the stream anew on another one")

// take takes one chunk. done tells that it was the last.
func (t *taking) take(ctx context.Context, line []byte) (done bool, err error) {
	c, err := uistream.Parse(line)
	if err != nil {
		return false, err
	}
	if err := t.check(c); err != nil {
		return false, err
	}
	call, err := t.step.Add(c)
	if err != nil || c.Type == uistream.Start {
		return false, err
	}
	t.begin()
	switch {
	case c.Type == uistream.StartStep:
		return false, nil
	case call:
		return false, t.commit(ctx)
	case t.step.Ended():
		return true, t.end(ctx, c)
	case c.Type == uistream.FinishStep: // each window is told when its calls have run
		return false, nil
	}
	return false, t.show(c)
}

func (t *taking) check(c uistream.Chunk) error {
	switch {
	case uistream.Poisonous(c.Input) || uistream.Poisonous(c.Data):
		return errPoison
	case strings.HasPrefix(c.Type, reserved):
		return errReserved
	case c.Type == uistream.Start && c.MessageID != "" && c.MessageID != string(t.stream.Message):
		return errors.New("messageId: is not that of this turn's message, which is " + string(t.stream.Message))
	}
	return nil
}

// reserved begins the types of data chunks that are ours alone.
const reserved = "data-countersign"

var (
	errPoison   = errors.New("has a member __proto__ or constructor, on which the AI SDK's clients fail")
	errReserved = errors.New("type: is a name that Countersign keeps for itself")
)

// begin shows the step's start, and what stands behind it, once.
func (t *taking) begin() {
	if t.begun {
		return
	}
	t.begun = true
	_ = t.show(uistream.Chunk{Type: uistream.StartStep})
	for _, note := range t.stream.Notes {
		if chunks, err := uistream.Replay([]strictjson.Raw{note}, uistream.V7); err == nil {
			_ = t.show(chunks...)
		}
	}
}

// show gives chunks to the windows. Where a message begins and ends, each
// window is told by whoever serves it.
func (t *taking) show(chunks ...uistream.Chunk) error {
	for _, c := range chunks {
		line, err := c.Encode()
		if err != nil {
			return err
		}
		t.chunks.add(line)
	}
	return nil
}

// commit commits the call that the step has completed, and only then shows
// it, with what is asked about it.
func (t *taking) commit(ctx context.Context) error {
	parts, err := t.step.Parts()
	if err != nil {
		return err
	}
	committed, err := t.stream.Commit(ctx, parts)
	if err != nil {
		return err
	}
	chunks, err := uistream.Replay(committed, uistream.V7)
	if err != nil {
		return err
	}
	if err := t.show(chunks...); err != nil {
		return err
	}
	return t.answer(chunks...)
}

// end ends the turn as its stream did.
func (t *taking) end(ctx context.Context, c uistream.Chunk) error {
	switch c.Type {
	case uistream.Error:
		return t.stream.Fail(ctx, c.ErrorText)
	case uistream.Abort:
		return t.stream.Abort(ctx, c.Reason)
	}
	parts, err := t.step.Parts()
	if err != nil {
		return err
	}
	if err := t.stream.Finish(ctx, parts); err != nil {
		return err
	}
	return t.show(c) // how it ended; the windows are told when all of it has
}

// answer tells the stream's sender.
func (t *taking) answer(chunks ...uistream.Chunk) error {
	for _, c := range chunks {
		line, err := c.Encode()
		if err != nil {
			return err
		}
		if _, err := t.w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return t.rc.Flush()
}
