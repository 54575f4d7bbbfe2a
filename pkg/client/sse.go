package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line of an event stream, in bytes: a message comes as
// one line.
const maxLine = 64 << 20

// frame is one event as it stands in a stream.
type frame struct {
	event string
	id    string
	data  []byte
}

// frames reads an event stream (the WHATWG's text/event-stream). alive is
// called for every line, comments included.
type frames struct {
	lines *bufio.Scanner
	alive func()
}

func newFrames(body io.Reader, alive func()) *frames {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	return &frames{lines: lines, alive: alive}
}

// next reads up to the end of the next event. A stream that ends in the
// middle of one gives io.ErrUnexpectedEOF, and what was begun is dropped.
func (f *frames) next() (frame, error) {
	var got frame
	data := false
	for f.lines.Scan() {
		f.alive()
		line := f.lines.Bytes()
		if len(line) == 0 {
			if data {
				return got, nil
			}
			got = frame{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			got.event = string(value)
		case "id":
			got.id = string(value)
		case "data":
			if data {
				got.data = append(got.data, '\n')
			}
			got.data, data = append(got.data, value...), true
		}
	}
	if err := f.lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return frame{}, fmt.Errorf("an event is larger than %d bytes", maxLine)
	} else if err != nil {
		return frame{}, err
	}
	return frame{}, io.ErrUnexpectedEOF
}
