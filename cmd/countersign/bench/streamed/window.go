package streamed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/client"
)

// stream is a live turn with a window on it.
type stream struct {
	topic string
	turn  client.OpenAnswer
	got   atomic.Int64 // chunks that its window was told
	mu    sync.Mutex
	late  []time.Duration // each chunk's way
	ended chan error      // of the window
}

// lease outlasts every measurement.
const lease = "10m"

// open opens turns and a window on each, and waits until every window has its
// response.
func (n *node) open(ctx context.Context, count int) ([]*stream, error) {
	all := make([]*stream, count)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range all {
		g.Go(func() (err error) {
			all[i], err = n.live(ctx, fmt.Sprintf("chat-%d", i))
			if err == nil {
				err = n.watch(context.WithoutCancel(ctx), all[i])
			}
			return err
		})
	}
	return all, g.Wait()
}

func (n *node) live(ctx context.Context, topic string) (*stream, error) {
	turn, err := n.client.OpenTurn(ctx, topic, client.OpenRequest{MessageID: "m", Lease: lease})
	return &stream{topic: topic, turn: turn, ended: make(chan error, 1)}, err
}

// watch opens a window as a browser does, and reads it to its end.
func (n *node) watch(ctx context.Context, s *stream) error {
	ctx, cancel := context.WithCancel(ctx)
	n.stops = append(n.stops, cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+"/api/chat/"+s.topic+"/stream", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+n.key)
	opened := make(chan error, 1)
	go func() {
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err == nil {
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("a window is answered %s", response.Status)
			}
		}
		if opened <- err; err == nil {
			s.ended <- s.read(bufio.NewScanner(response.Body))
		}
	}()
	return <-opened
}

var delta = []byte(`"type":"text-delta"`)

// read notes how late each chunk is: what it says is when it was sent.
func (s *stream) read(lines *bufio.Scanner) error {
	for lines.Scan() {
		data, is := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !is || !bytes.Contains(data, delta) {
			continue
		}
		var c struct{ Delta string }
		if err := json.Unmarshal(data, &c); err != nil {
			return err
		}
		if err := s.heard(c.Delta, time.Now()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// digits are how long a time is as a chunk says it.
const digits = 19

// heard notes the chunks of a delta: one, or more where a window that lost the
// stream was told the text from the rows.
func (s *stream) heard(text string, now time.Time) error {
	for ; len(text) >= digits; text = text[digits:] {
		sent, err := strconv.ParseInt(text[:digits], 10, 64)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.late = append(s.late, now.Sub(time.Unix(0, sent)))
		s.mu.Unlock()
		s.got.Add(1)
	}
	return nil
}
