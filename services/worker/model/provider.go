package model

import (
	"context"
	"fmt"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/countersign/countersign/pkg/egress"
)

// Provider is where models are asked.
type Provider struct {
	chat openai.ChatCompletionService
	key  string
	host string
}

// NewProvider makes a provider of a base URL, such as
// https://api.openai.com/v1. client decides which addresses it may reach; key
// may be empty. Nothing is read from the environment, and nothing is retried
// here.
func NewProvider(client *http.Client, baseURL, key string) (*Provider, error) {
	target, err := egress.Check(baseURL)
	if err != nil {
		return nil, fmt.Errorf("the model's base URL: %w", err)
	}
	options := []option.RequestOption{
		option.WithHTTPClient(client), option.WithBaseURL(target.String()), option.WithMaxRetries(0),
	}
	if key != "" {
		options = append(options, option.WithAPIKey(key))
	}
	return &Provider{chat: openai.NewChatCompletionService(options...), key: key, host: target.Hostname()}, nil
}

// request is what a provider is asked.
type request struct {
	model        string
	messages     []openai.ChatCompletionMessageParamUnion
	tools        []function
	used         map[string]bool // ids of calls that the message has
	conversation string
}

// delta is what one chunk of a provider adds, or that it failed.
type delta struct {
	text, reasoning string
	calls           []callDelta
	finish          string // why the answer ends, as the provider says it; "" while it goes on
	model           string // which model answers
	in, out         int64  // tokens, where the provider says
	err             error
}

// callDelta is what a chunk adds to the index-th call.
type callDelta struct {
	index               int64
	id, name, arguments string
}

// stream asks, and gives what is answered until that ends, fails, or ctx is
// over; then the channel is closed.
func (p *Provider) stream(ctx context.Context, r request) <-chan delta {
	out := make(chan delta)
	go func() {
		defer close(out)
		answer := p.chat.NewStreaming(ctx, r.params())
		defer func() { _ = answer.Close() }()
		for answer.Next() {
			if !send(ctx, out, readDelta(answer.Current())) {
				return
			}
		}
		if err := answer.Err(); err != nil {
			send(ctx, out, delta{err: failureOf(err, p.key)})
		}
	}()
	return out
}

func send(ctx context.Context, out chan<- delta, d delta) bool {
	select {
	case out <- d:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r request) params() openai.ChatCompletionNewParams {
	params := openai.ChatCompletionNewParams{Model: r.model, Messages: r.messages}
	for _, f := range r.tools {
		params.Tools = append(params.Tools, f.param())
	}
	return params
}

// readDelta reads a chunk. Of several answers to one request, which nobody
// asked for, the first counts.
func readDelta(c openai.ChatCompletionChunk) delta {
	d := delta{model: c.Model, in: c.Usage.PromptTokens, out: c.Usage.CompletionTokens}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		d.text += choice.Delta.Content + choice.Delta.Refusal
		d.reasoning += thoughts(choice.Delta)
		d.finish = choice.FinishReason
		for _, call := range choice.Delta.ToolCalls {
			d.calls = append(d.calls, callDelta{call.Index, call.ID, call.Function.Name, call.Function.Arguments})
		}
	}
	return d
}
