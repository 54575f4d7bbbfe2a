package aisdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/bus"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/intake"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/uistream"
)

// Chunks carries the streams of live turns; *bus.Bus does.
type Chunks interface {
	intake.Chunks
	FollowChunks(ctx context.Context, tenant model.TenantID, turn model.TurnID, handle func(bus.Chunks) bool) error
}

// Intake takes the stream of a backend's model into its live turn.
type Intake struct {
	Chunks Chunks
	Signer *uistream.Signer // of approval requests; nil signs none
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
	t := &taking{stream: st, w: w, rc: rc, silence: maxSilence, sign: liveSigner{Signer: in.Signer, version: uistream.V6}}
	t.Writer = intake.NewWriter(context.WithoutCancel(ctx), in.Chunks, st, t.answer)
	lines := read(ctx, r.Body)
	defer func() { // the server must not take the body back while it is read
		cancel()
		_ = rc.SetReadDeadline(time.Now())
		for range lines { // what comes now comes too late
			continue
		}
	}()
	err := t.run(ctx, lines)
	defer t.Close(err == nil)
	if err == nil || errors.Is(err, errBrokenOff) || ctx.Err() != nil {
		return nil
	}
	if errors.Is(err, model.ErrUnavailable) {
		in.Log.WarnContext(ctx, "a stream could not be taken", "turn", st.Writer.Turn, "error", err)
	}
	_ = t.answer(uistream.Chunk{Type: uistream.Error, ErrorText: explain(err)})
	return nil
}

// maxSilence is how long a sender may say nothing: longer than a model thinks,
// and as long as a continuation waits for whoever was given it. A sender that
// hangs keeps its connection open, and would hold the conversation for ever.
const maxSilence = 10 * time.Minute

var errSilent = fmt.Errorf("nothing came for %s: begin the stream anew", maxSilence)

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
	*intake.Writer
	stream  *approval.Stream
	w       io.Writer
	rc      *http.ResponseController
	sign    liveSigner    // in the form that both versions verify
	silence time.Duration // how long nothing may come
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
	silent := time.NewTimer(t.silence)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-daemon.Draining(ctx):
			return errStopping
		case <-silent.C:
			return errSilent
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
			if done, err := t.Take(ctx, in.line); done || err != nil {
				return err
			}
			silent.Reset(t.silence)
		}
	}
}

var errStopping = errors.New("this node is stopping: begin the stream anew on another one")

// answer tells the stream's sender, which must take each answer within
// writeTimeout: one that reads nothing holds up the lease of its own turn.
func (t *taking) answer(chunks ...uistream.Chunk) error {
	if err := t.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	for _, c := range chunks {
		line, err := t.sign.next(c).Encode()
		if err != nil {
			return err
		}
		if _, err := t.w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	if err := t.rc.Flush(); err != nil {
		return err
	}
	return t.rc.SetWriteDeadline(time.Time{}) // the answer's own end may be long after
}
