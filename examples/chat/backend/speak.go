package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/client"
)

// speak streams what the model says into a turn that we opened: every window
// shows it word by word, and each call is committed before it is shown. If we
// die before the end, the turn's lease runs out and the continuation is open
// again.
func (b *Backend) speak(ctx context.Context, topic string, opened client.OpenAnswer) error {
	if err := pause(ctx, b.options.Think); err != nil {
		return err
	}
	c, err := b.read(ctx, topic)
	if err != nil {
		return err
	}
	stream, err := b.api.StreamTurn(ctx, topic, opened)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- listen(stream) }()
	for _, chunk := range chunks(c.next()) {
		if err := errors.Join(pause(ctx, b.options.Think/wordsPerThought), stream.Send(chunk)); err != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		b.log.Info("went on", "topic", topic, "turn", opened.Turn.ID)
	}
	return err
}

// wordsPerThought is how many words the model says in the time that it thinks
// before it says something.
const wordsPerThought = 12

// listen reads what Countersign says of the stream until its end; nil is that
// the turn is committed. What it adds, such as that people are asked, is in
// the history for the next step.
func listen(stream *client.TurnStream) error {
	for {
		line, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var c chunk
		if err := json.Unmarshal(line, &c); err == nil && c.Type == "error" {
			return fmt.Errorf("the stream was refused: %s", c.ErrorText)
		}
	}
}

// chunk is a UI message chunk of the AI SDK, as far as this model needs it.
type chunk struct {
	Type           string          `json:"type"`
	ID             string          `json:"id,omitempty"`
	Delta          string          `json:"delta,omitempty"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ToolName       string          `json:"toolName,omitempty"`
	InputTextDelta string          `json:"inputTextDelta,omitempty"`
	Input          json.RawMessage `json:"input,omitempty"`
	FinishReason   string          `json:"finishReason,omitempty"`
	ErrorText      string          `json:"errorText,omitempty"`
}

// chunks is a turn as a model would stream it.
func chunks(parts []client.Part) []json.RawMessage {
	reason := "stop"
	out := []chunk{{Type: "start-step"}}
	for _, raw := range parts {
		var p struct {
			part
			Text       string `json:"text"`
			ToolCallID string `json:"toolCallId"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			panic(err) // it was made here
		}
		if p.Type == "text" {
			out = append(out, chunk{Type: "text-start", ID: "words"})
			for word := range strings.SplitAfterSeq(p.Text, " ") {
				out = append(out, chunk{Type: "text-delta", ID: "words", Delta: word})
			}
			out = append(out, chunk{Type: "text-end", ID: "words"})
			continue
		}
		reason = "tool-calls"
		call := chunk{ToolCallID: p.ToolCallID, ToolName: strings.TrimPrefix(p.Type, "tool-")}
		begin, input, whole := call, chunk{Type: "tool-input-delta", ToolCallID: p.ToolCallID, InputTextDelta: string(p.Input)}, call
		begin.Type, whole.Type, whole.Input = "tool-input-start", "tool-input-available", p.Input
		out = append(out, begin, input, whole)
	}
	return encoded(append(out, chunk{Type: "finish-step"}, chunk{Type: "finish", FinishReason: reason}))
}

func encoded(chunks []chunk) []json.RawMessage {
	out := make([]json.RawMessage, len(chunks))
	for i, c := range chunks {
		line, err := json.Marshal(c)
		if err != nil {
			panic(err) // texts can always be encoded
		}
		out[i] = line
	}
	return out
}

// pause is the time that a model would take.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
