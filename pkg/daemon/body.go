package daemon

import (
	"io"
	"net/http"
	"time"
)

// limitedBody lifts the read deadline once the body has been read.
type limitedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{}) // it was set before, so it can be lifted
	}
	return n, err
}
