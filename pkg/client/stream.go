package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// TurnStream is the stream of a live turn: the caller's model speaks through
// it, and Countersign answers with what it adds. Send and Next may be used by
// two goroutines at once; both must be, since neither side waits for ever for
// the other.
type TurnStream struct {
	// Fence is what the stream's turn is ended with from now on, by
	// [Client.FinishTurn], should it not end by its own chunks.
	Fence int64

	body    *io.PipeWriter
	answer  io.ReadCloser
	answers *bufio.Scanner
}

// StreamTurn begins the stream of a turn that was opened live. Whoever
// streamed to it before loses it. The stream ends with a chunk of type
// finish, error or abort, which commits the turn; one that is closed without
// leaves the turn as its calls were committed, until its lease runs out.
//
// Problems: fence-lost, turn-ended.
func (c *Client) StreamTurn(ctx context.Context, topic string, open OpenAnswer) (*TurnStream, error) {
	in, out := io.Pipe()
	target := c.base + path("v1", "topics", topic, "turns", open.Turn.ID, "chunks")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, in)
	if err != nil {
		return nil, fmt.Errorf("stream turn %s: %w", open.Turn.ID, err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Countersign-Fence", strconv.FormatInt(open.Fence, 10))
	request.Header.Set("Countersign-Token", open.Token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, &unreached{err}
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		return nil, problem(response, body)
	}
	s := &TurnStream{body: out, answer: response.Body, answers: bufio.NewScanner(response.Body)}
	s.answers.Buffer(nil, maxAnswer)
	if s.Fence, err = strconv.ParseInt(response.Header.Get("Countersign-Fence"), 10, 64); err != nil {
		return nil, errors.Join(fmt.Errorf("stream turn %s: the answer has no fence", open.Turn.ID), s.Close())
	}
	return s, nil
}

// Send sends one UI message chunk of the AI SDK, a JSON object.
func (s *TurnStream) Send(chunk json.RawMessage) error {
	_, err := s.body.Write(append(append([]byte(nil), chunk...), '\n'))
	return err
}

// Next gives the next chunk that Countersign adds: a call as it was committed
// (tool-input-available), what is asked about it (tool-approval-request) or
// said (tool-output-denied, tool-output-error). A chunk of type error says why
// the stream was refused. io.EOF is its end: after a chunk that ends the
// turn, the turn is committed.
func (s *TurnStream) Next() (json.RawMessage, error) {
	if !s.answers.Scan() {
		if err := s.answers.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	return append(json.RawMessage(nil), s.answers.Bytes()...), nil
}

// Close ends the stream on this side.
func (s *TurnStream) Close() error {
	return errors.Join(s.body.Close(), s.answer.Close())
}
