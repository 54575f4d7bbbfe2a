package uistream

import (
	"errors"
	"fmt"

	"github.com/countersign/countersign/pkg/strictjson"
)

// Step is what the chunks of one step of the model have come to. It accepts
// what a model's side may send, in an order that makes sense, and refuses
// what only an authority may say: approvals, and outputs of calls that are
// not the provider's own. The zero Step is empty.
type Step struct {
	parts []*part
	open  map[string]*part // texts and reasonings by their stream id
	tools map[string]*part // tool parts by their call's id
	data  map[string]*part // data parts by type and id
	size  int

	touched  *part            // what the last chunk began, or completed
	metadata []strictjson.Raw // what chunks said of the message, in order

	begun, finished, ended bool
	called                 bool // a call that is not the provider's own began
}

// MaxSize bounds, in bytes, what a step's texts, inputs and data may come to.
const MaxSize = 8 << 20

// part is one part as it grows.
type part struct {
	Type             string         `json:"type"`
	ID               string         `json:"id,omitzero"`
	ToolName         string         `json:"toolName,omitzero"`
	ToolCallID       string         `json:"toolCallId,omitzero"`
	State            string         `json:"state,omitzero"`
	SourceID         string         `json:"sourceId,omitzero"`
	URL              string         `json:"url,omitzero"`
	MediaType        string         `json:"mediaType,omitzero"`
	Kind             string         `json:"kind,omitzero"`
	Title            string         `json:"title,omitzero"`
	Filename         string         `json:"filename,omitzero"`
	Text             *string        `json:"text,omitzero"`
	Input            strictjson.Raw `json:"input,omitzero"`
	Output           strictjson.Raw `json:"output,omitzero"`
	ErrorText        string         `json:"errorText,omitzero"`
	Data             strictjson.Raw `json:"data,omitzero"`
	ProviderExecuted bool           `json:"providerExecuted,omitzero"`
	ProviderMetadata strictjson.Raw `json:"providerMetadata,omitzero"`
	CallMetadata     strictjson.Raw `json:"callProviderMetadata,omitzero"`
	ResultMetadata   strictjson.Raw `json:"resultProviderMetadata,omitzero"`
	ToolMetadata     strictjson.Raw `json:"toolMetadata,omitzero"`

	index   int    // among the step's parts
	growing []byte // of a text, or of an input that is not complete
	settled bool   // of a tool part: its input is complete
}

// What a step refuses, beside what names the member that is wrong.
var (
	ErrEnded     = errors.New("the stream has ended: nothing follows finish, error or abort")
	ErrOneStep   = errors.New("a turn is one step: end the stream, and open the next turn with continues")
	ErrAuthority = errors.New("only Countersign says this: approvals, and outputs of calls, come from it alone")
	ErrTextFirst = errors.New("a text follows a tool call; within a turn text comes first")
	ErrTooLarge  = fmt.Errorf("the step is larger than %d bytes", MaxSize)
)

// Add takes the next chunk. It reports whether the chunk completed a call,
// which is to be committed before the chunk is shown. A refused chunk changes
// nothing.
func (s *Step) Add(c Chunk) (call bool, err error) {
	if s.size += len(c.raw); s.size > MaxSize {
		return false, ErrTooLarge
	}
	switch {
	case s.ended:
		return false, ErrEnded
	case s.finished && !ends(c.Type):
		return false, ErrOneStep
	}
	s.touched = nil
	return s.add(c)
}

func ends(kind string) bool {
	return kind == Finish || kind == Error || kind == Abort || kind == MessageMetadata
}

func (s *Step) add(c Chunk) (call bool, err error) {
	about, err := c.metadata()
	if err != nil {
		return false, err
	}
	if about != nil && (c.Type == Start || c.Type == MessageMetadata || c.Type == Finish) {
		s.metadata = append(s.metadata, about)
	}
	switch c.Type {
	case Start, MessageMetadata:
	case StartStep:
		return false, s.begin()
	case TextStart, ReasoningStart:
		return false, s.openText(c)
	case TextDelta, ReasoningDelta, TextEnd, ReasoningEnd:
		return false, s.growText(c)
	case ToolInputStart, ToolInputDelta, ToolInputAvailable, ToolInputError:
		return s.input(c)
	case ToolOutputAvailable, ToolOutputError:
		return false, s.providersOutput(c)
	case SourceURL, SourceDocument, File, ReasoningFile, Custom:
		s.push(&part{Type: c.Type, SourceID: c.SourceID, URL: c.URL, MediaType: c.MediaType, Title: c.Title, Filename: c.Filename,
			Kind: c.Kind, ProviderMetadata: c.ProviderMetadata})
	case FinishStep:
		s.finished = true
	case Finish, Error, Abort:
		s.ended = true
	default:
		if !c.IsData() {
			return false, ErrAuthority
		}
		s.addData(c)
	}
	return false, nil
}

func (s *Step) begin() error {
	if s.begun || len(s.parts) > 0 {
		return ErrOneStep
	}
	s.begun = true
	return nil
}

func (s *Step) push(p *part) {
	p.index = len(s.parts) + 1 // the step-start stands first
	s.parts, s.touched = append(s.parts, p), p
}

// Touched is the part that the last chunk began or completed, as it is among
// [Step.Parts], with its place there. It is nil after a chunk that did neither,
// and while the part's input is streaming.
func (s *Step) Touched() (part strictjson.Raw, index int, err error) {
	if s.touched == nil || s.touched.State == inputStreaming {
		return nil, 0, nil
	}
	part, err = s.touched.encode()
	return part, s.touched.index, err
}

// addData replaces the data part of the same type and id; transient data is
// shown and not kept.
func (s *Step) addData(c Chunk) {
	if c.Transient {
		return
	}
	key := c.Type + "\x00" + c.ID
	if p := s.data[key]; p != nil && c.ID != "" {
		p.Data, s.touched = c.Data, p
		return
	}
	p := &part{Type: c.Type, ID: c.ID, Data: c.Data}
	s.push(p)
	if s.data == nil {
		s.data = map[string]*part{}
	}
	s.data[key] = p
}

// Ended tells whether the stream said that it is over.
func (s *Step) Ended() bool { return s.ended }

// Parts are the step's parts so far, its step-start first, as a client of the
// SDK would have them: the calls in state input-available, texts whose end
// has not come in state streaming. A call whose input is not complete is nil:
// nothing can be made of it yet, but its place is taken.
func (s *Step) Parts() ([]strictjson.Raw, error) {
	out := []strictjson.Raw{strictjson.Raw(`{"type":"step-start"}`)}
	for _, p := range s.parts {
		if p.State == inputStreaming {
			out = append(out, nil)
			continue
		}
		raw, err := p.encode()
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

func (p *part) encode() (strictjson.Raw, error) {
	if p.growing != nil {
		text := string(p.growing)
		p.Text = &text
	}
	raw, err := strictjson.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("part %s: %w", p.Type, err)
	}
	return raw, nil
}
