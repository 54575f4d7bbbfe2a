package uistream

import (
	"cmp"
	"fmt"

	"github.com/countersign/countersign/pkg/strictjson"
)

// MaxInput bounds a call's input, in bytes.
const MaxInput = 256 << 10

// input follows a call from its first characters to its complete input. It
// reports whether the chunk completed a call that is to be committed; what the
// provider runs itself is history. Input that did not parse makes a call, too,
// one that is settled at once, so that the model is told of it.
func (s *Step) input(c Chunk) (call bool, err error) {
	p := s.tools[c.ToolCallID]
	if p == nil && c.Type == ToolInputDelta {
		return false, fmt.Errorf("toolCallId: no tool-input-start came for it")
	}
	if p != nil && (p.settled || c.Type == ToolInputStart) {
		return false, fmt.Errorf("toolCallId: is used twice in this turn")
	}
	if len(c.Input) > MaxInput || p != nil && len(p.growing)+len(c.InputTextDelta) > MaxInput {
		return false, fmt.Errorf("input: is larger than %d bytes", MaxInput)
	}
	if p == nil {
		p = s.tool(c)
	}
	if c.Type != ToolInputDelta {
		s.touched = p
	}
	switch c.Type {
	case ToolInputDelta:
		p.growing = append(p.growing, c.InputTextDelta...)
	case ToolInputAvailable:
		p.complete(c, inputAvailable)
		p.Input = c.Input
		return !p.ProviderExecuted, nil
	case ToolInputError:
		p.complete(c, outputError)
		p.ErrorText, p.Input = cmp.Or(c.ErrorText, "The input makes no sense."), c.Input
		return !p.ProviderExecuted, nil
	}
	return false, nil
}

// tool begins a tool part. A part's type is chosen once.
func (s *Step) tool(c Chunk) *part {
	p := &part{Type: "tool-" + c.ToolName, ToolCallID: c.ToolCallID, State: inputStreaming, growing: []byte{}}
	if c.Dynamic {
		p.Type, p.ToolName = "dynamic-tool", c.ToolName
	}
	if s.tools == nil {
		s.tools = map[string]*part{}
	}
	s.tools[c.ToolCallID] = p
	s.called = s.called || !c.ProviderExecuted
	s.push(p)
	p.describe(c)
	return p
}

func (p *part) complete(c Chunk, state string) {
	p.State, p.settled, p.growing = state, true, nil
	p.describe(c)
}

// describe takes over what a chunk says about its call beside the input.
func (p *part) describe(c Chunk) {
	p.ProviderExecuted = p.ProviderExecuted || c.ProviderExecuted
	if c.Title != "" {
		p.Title = c.Title
	}
	for _, m := range []struct{ to, from *strictjson.Raw }{
		{&p.CallMetadata, &c.ProviderMetadata}, {&p.ToolMetadata, &c.ToolMetadata},
	} {
		if *m.from != nil {
			*m.to = *m.from
		}
	}
}

// providersOutput takes the output of a call that the model's provider ran;
// no other output can come from a stream.
func (s *Step) providersOutput(c Chunk) error {
	p := s.tools[c.ToolCallID]
	switch {
	case p == nil:
		return fmt.Errorf("toolCallId: this turn has no such call")
	case !p.ProviderExecuted || !p.settled:
		return ErrAuthority
	case c.Type == ToolOutputError:
		p.State, p.ErrorText = outputError, cmp.Or(c.ErrorText, toolFailed)
	default:
		p.State, p.Output = outputAvailable, c.Output
	}
	p.ResultMetadata, s.touched = c.ProviderMetadata, p
	return nil
}
