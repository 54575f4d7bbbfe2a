package uistream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Done is the frame that ends a stream.
const Done = "data: [DONE]\n\n"

// AppendFrame appends a chunk's line as a frame of an event stream.
func AppendFrame(out, line []byte) []byte {
	out = append(out, "data: "...)
	out = append(out, line...)
	return append(out, "\n\n"...)
}

// AppendComment appends a comment, which clients pass over: it keeps a stream
// open on which nothing happens.
func AppendComment(out []byte, text string) []byte {
	out = append(out, ": "...)
	out = append(out, text...)
	return append(out, "\n\n"...)
}

// MaxLine bounds one chunk on the wire, in bytes: it fits a NATS message, and
// the largest input fits it.
const MaxLine = 512 << 10

// ErrLine says that a line of a stream is longer than [MaxLine].
var ErrLine = fmt.Errorf("a line of the stream is longer than %d bytes", MaxLine)

// Reader reads the chunks of a stream: newline-delimited JSON, or an event
// stream of which the data counts. Which one it is, each line tells.
type Reader struct {
	lines *bufio.Scanner
	data  []byte
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), MaxLine)
	return &Reader{lines: lines}
}

// Next gives the next chunk's text. It is valid until the call after it.
// Errors: io.EOF at the end, or after [DONE]; [ErrLine]; what the reader
// below gives.
func (r *Reader) Next() ([]byte, error) {
	r.data = r.data[:0]
	for r.lines.Scan() {
		line := bytes.TrimSuffix(r.lines.Bytes(), []byte("\r"))
		switch name, value, field := bytes.Cut(line, []byte(":")); {
		case len(line) == 0 && len(r.data) > 0:
			return r.event()
		case len(line) == 0:
		case line[0] == '{' && len(r.data) == 0:
			return line, nil
		case field && string(name) == "data":
			r.data = append(append(r.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, ErrLine
	case err != nil:
		return nil, err
	case len(r.data) > 0:
		return r.event()
	}
	return nil, io.EOF
}

func (r *Reader) event() ([]byte, error) {
	data := bytes.TrimSuffix(r.data, []byte("\n"))
	if string(data) == "[DONE]" {
		return nil, io.EOF
	}
	return data, nil
}
