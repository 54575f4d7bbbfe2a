package scripted

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Say are the events of a text, word by word.
func Say(text string) (out []Event) {
	for _, word := range strings.SplitAfter(strings.TrimSpace(text), " ") {
		out = append(out, choice(map[string]any{"content": word}, ""))
	}
	return out
}

// Think are the events of a reasoning, as some providers show it.
func Think(text string) []Event {
	return []Event{choice(map[string]any{"reasoning_content": text}, "")}
}

// Call are the events of the index-th call of an answer.
func Call(index int, id, tool, arguments string) []Event {
	half := len(arguments) / 2
	piece := func(call map[string]any) Event {
		call["index"] = index
		return choice(map[string]any{"tool_calls": []any{call}}, "")
	}
	return []Event{
		piece(map[string]any{"id": id, "type": "function", "function": map[string]any{"name": tool, "arguments": ""}}),
		piece(map[string]any{"function": map[string]any{"arguments": arguments[:half]}}),
		piece(map[string]any{"function": map[string]any{"arguments": arguments[half:]}}),
	}
}

// End are the events that end an answer, with the provider's word for why.
func End(why string) []Event {
	return []Event{choice(map[string]any{}, why), {Data: "[DONE]"}}
}

// Stream is an answer of these events.
func Stream(events ...[]Event) Answer { return Answer{Events: slices.Concat(events...)} }

func choice(delta map[string]any, why string) Event {
	c := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
	if why != "" {
		c["finish_reason"] = why
	}
	data, err := json.Marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": []any{c},
	})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return Event{Data: string(data)}
}

// Paced is a model that takes its time over each event.
func Paced(m Model, pace time.Duration) Model {
	return func(r Request) Answer {
		a := m(r)
		for i := range a.Events {
			a.Events[i].Before = func(ctx context.Context) {
				select {
				case <-ctx.Done():
				case <-time.After(pace):
				}
			}
		}
		return a
	}
}
