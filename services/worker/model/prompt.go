package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
)

// prompt is the conversation up to a live turn, as the protocol has it, and
// the ids of the calls that the turn's message has. It is made of committed
// rows alone; notes are what the model is to be told before it answers.
//
// Each call is followed by its result before anything else is said. A call of
// the turn's own message without a result is a [*Failure]: nothing is asked
// then. Elsewhere, where other turns may wait for people, it is left out with
// all that depends on it; and so are other models' answers to the same message.
func prompt(
	system string, messages []store.Message, live *model.Turn, notes []strictjson.Raw,
) (out []openai.ChatCompletionMessageParamUnion, used map[string]bool, err error) {
	p := &prompter{used: map[string]bool{}}
	if system != "" {
		p.add(openai.SystemMessage(system))
	}
	others := beside(messages, live.Message)
	for _, m := range messages {
		switch {
		case m.Role != "assistant":
			p.person(m)
			continue
		case others[m.ID]:
			continue
		}
		own := m.ID == live.Message
		for _, t := range m.Turns {
			if own && (t.ID == live.ID || t.Step >= live.Step) {
				continue
			}
			if err := p.turn(t, own); err != nil {
				return nil, nil, err
			}
		}
		if own {
			break
		}
	}
	for _, part := range readParts(notes) {
		p.note(part.Data)
	}
	return p.out, p.used, nil
}

type prompter struct {
	out  []openai.ChatCompletionMessageParamUnion
	used map[string]bool
}

func (p *prompter) add(m openai.ChatCompletionMessageParamUnion) { p.out = append(p.out, m) }

// part is a part of a UIMessage, as far as a model is told of it.
type part struct {
	Type             string          `json:"type"`
	Text             string          `json:"text"`
	State            string          `json:"state"`
	ToolCallID       string          `json:"toolCallId"`
	ToolName         string          `json:"toolName"`
	Input            json.RawMessage `json:"input"`
	Output           json.RawMessage `json:"output"`
	ErrorText        string          `json:"errorText"`
	ProviderExecuted bool            `json:"providerExecuted"`
	Approval         struct {
		Reason string `json:"reason"`
	} `json:"approval"`
	Data      json.RawMessage `json:"data"`
	MediaType string          `json:"mediaType"`
	URL       string          `json:"url"`
	Filename  string          `json:"filename"`
}

func readParts[Raw ~[]byte](raws []Raw) []part {
	out := make([]part, 0, len(raws))
	for _, raw := range raws {
		var p part
		if json.Unmarshal(raw, &p) == nil {
			out = append(out, p)
		}
	}
	return out
}

// person adds a message of a person or the system.
func (p *prompter) person(m store.Message) {
	var raws []json.RawMessage
	_ = json.Unmarshal(m.Parts, &raws) // was checked when it came in
	var said []string
	var content []openai.ChatCompletionContentPartUnionParam
	images := false
	for _, part := range readParts(raws) {
		text := part.Text
		switch {
		case part.Type == "file" && strings.HasPrefix(part.MediaType, "image/"):
			images = true
			content = append(content, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: part.URL}))
			continue
		case part.Type == "file":
			text = strings.TrimSpace(fmt.Sprintf("[a file of type %s, which you cannot see: %s]", part.MediaType, part.Filename))
		case part.Type != "text" || text == "":
			continue
		}
		said, content = append(said, text), append(content, openai.TextContentPart(text))
	}
	switch text := strings.Join(said, "\n"); {
	case m.Role == "system" && text != "":
		p.add(openai.SystemMessage(text))
	case m.Role != "system" && images:
		p.add(openai.UserMessage(content))
	case m.Role != "system" && text != "":
		p.add(openai.UserMessage(text))
	}
}

// turn adds one step of the model: what it was told, what it said and called,
// and the results.
func (p *prompter) turn(t store.MessageTurn, own bool) error {
	if t.Discarded || t.Streaming && !own {
		return nil
	}
	said := openai.ChatCompletionAssistantMessageParam{}
	var texts []string
	var results []openai.ChatCompletionMessageParamUnion
	for _, part := range readParts(uimessage.TurnParts(t)) {
		switch {
		case part.Type == "text" && part.Text != "":
			texts = append(texts, part.Text)
		case part.Type == noteType:
			p.note(part.Data)
		}
		if part.ToolCallID == "" {
			continue
		}
		if own {
			p.used[part.ToolCallID] = true
		}
		if part.ProviderExecuted {
			continue
		}
		result, settled := part.result(t.Ended != "")
		switch {
		case settled:
			said.ToolCalls = append(said.ToolCalls, part.called())
			results = append(results, openai.ToolMessage(result, part.ToolCallID))
		case own:
			return &Failure{Text: "the call " + part.ToolCallID + " has no result yet", ForGood: true, Kind: "adjacency"}
		}
	}
	if text := strings.Join(texts, "\n"); text != "" {
		said.Content.OfString = param.NewOpt(text)
	}
	if len(texts) > 0 || len(results) > 0 {
		p.add(openai.ChatCompletionMessageParamUnion{OfAssistant: &said})
		p.out = append(p.out, results...)
	}
	return nil
}

// noteType is the type of the parts in which the model is told what people
// changed.
const noteType = "data-countersign-note"

// note tells the model what happened outside of it, in a message of its own
// behind the results. Many providers take a system message at the beginning
// alone.
func (p *prompter) note(data json.RawMessage) {
	var n model.Note
	if json.Unmarshal(data, &n) == nil && n.Text != "" {
		p.add(openai.UserMessage("[A note of the system, not of the user: " + n.Text + "]"))
	}
}

// called is a call as the model made it.
func (p part) called() openai.ChatCompletionMessageToolCallUnionParam {
	name, static := strings.CutPrefix(p.Type, "tool-")
	if !static {
		name = p.ToolName
	}
	return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
		ID: p.ToolCallID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: functionName(name), Arguments: arguments(p.Input)},
	}}
}

// arguments are an input as the protocol has it: an object, always, since
// providers read it as one. What is none was refused, and is told as it was.
func arguments(input json.RawMessage) string {
	input = bytes.TrimSpace(input)
	switch {
	case len(input) == 0:
		return "{}"
	case input[0] == '{':
		return string(input)
	}
	return `{"input":` + string(input) + `}`
}

// The words for outcomes that have none of their own.
const (
	deniedText  = "Tool call execution denied."
	unknownText = "The result is not known."
	failedText  = "The tool failed."
)

// result is what the model is told of a call, and whether there is anything
// to tell. In a turn that was ended nobody waits for what still runs.
func (p part) result(ended bool) (text string, settled bool) {
	switch model.CallState(p.State) {
	case model.CallOutputAvailable:
		return output(p.Output), true
	case model.CallOutputError:
		return orElse(p.ErrorText, failedText), true
	case model.CallOutputDenied:
		return orElse(p.Approval.Reason, deniedText), true
	}
	return unknownText, ended
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// output is a tool's answer: a text as it is, everything else as JSON.
func output(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
