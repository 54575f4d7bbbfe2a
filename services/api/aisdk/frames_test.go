package aisdk

import (
	"bytes"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/uistream"
)

// client is the far end of a response.
type client struct {
	body    bytes.Buffer
	longest int
}

func (c *client) Header() http.Header             { return http.Header{} }
func (c *client) WriteHeader(int)                 {}
func (c *client) Flush()                          {}
func (c *client) SetReadDeadline(time.Time) error { return nil }

func (c *client) SetWriteDeadline(time.Time) error { return nil }

func (c *client) Write(p []byte) (int, error) {
	c.longest = max(c.longest, len(p))
	return c.body.Write(p)
}

// However much a message has, a window keeps little of it: one that does not
// read holds what was not written, and many of them may not read at once.
func TestAWindowKeepsLittleOfALongMessage(t *testing.T) {
	t.Parallel()
	far := &client{}
	out := openFrames(far)
	defer out.silence.Stop()
	var want []byte
	sizes := slices.Concat(slices.Repeat([]int{10}, 1000), []int{uistream.MaxLine}, slices.Repeat([]int{1000}, 200))
	for _, size := range sizes {
		line := bytes.Repeat([]byte("x"), size)
		want = uistream.AppendFrame(want, line)
		if err := out.add(line); err != nil {
			t.Fatal(err)
		}
	}
	if kept := cap(out.buf); kept > 4*maxUnwritten {
		t.Errorf("%d bytes are kept", kept)
	}
	if err := out.flush(); err != nil {
		t.Fatal(err)
	}
	if far.longest > maxUnwritten+uistream.MaxLine+100 {
		t.Errorf("%d bytes were written at once", far.longest)
	}
	if !bytes.Equal(far.body.Bytes(), want) {
		t.Error("the client has something else")
	}
}
