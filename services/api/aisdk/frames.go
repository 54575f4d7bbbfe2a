package aisdk

import (
	"errors"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/uistream"
)

// frames writes an event stream to one client, which must take each write
// within writeTimeout: a slow one is dropped, and resumes.
type frames struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	buf     []byte
	silence *time.Ticker
}

// writeTimeout bounds one write; comments are how often a silent stream shows
// that it lives.
const (
	writeTimeout = 10 * time.Second
	comments     = 15 * time.Second
)

func openFrames(w http.ResponseWriter) *frames {
	f := &frames{w: w, rc: http.NewResponseController(w), silence: time.NewTicker(comments)}
	_ = f.rc.SetReadDeadline(time.Time{})
	_ = f.rc.SetWriteDeadline(time.Time{})
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	header.Set("X-Vercel-Ai-Ui-Message-Stream", "v1")
	w.WriteHeader(http.StatusOK)
	return f
}

// maxUnwritten bounds, in bytes, what is kept of frames that were not written
// yet, whatever the message has: a client that does not read costs no more.
const maxUnwritten = 64 << 10

// add appends a chunk's frame; it is written with the next flush, or before.
func (f *frames) add(line []byte) error {
	f.buf = uistream.AppendFrame(f.buf, line)
	if len(f.buf) < maxUnwritten {
		return nil
	}
	return f.flush()
}

func (f *frames) end() { f.buf = append(f.buf, uistream.Done...) }

func (f *frames) comment() error {
	f.buf = uistream.AppendComment(f.buf, "keep-alive")
	return f.flush()
}

func (f *frames) flush() error {
	if len(f.buf) == 0 {
		return nil
	}
	if err := f.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := f.w.Write(f.buf)
	f.buf = f.buf[:0]
	if cap(f.buf) > 2*maxUnwritten { // a long line is seldom followed by another one
		f.buf = nil
	}
	f.silence.Reset(comments)
	return errors.Join(err, f.rc.Flush())
}
