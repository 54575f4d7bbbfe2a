package uistream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/strictjson"
)

// The types of chunks, as the SDK spells them. Data chunks are "data-" and a
// name of their sender's.
const (
	Start     = "start"
	StartStep = "start-step"

	TextStart = "text-start"
	TextDelta = "text-delta"
	TextEnd   = "text-end"

	ReasoningStart = "reasoning-start"
	ReasoningDelta = "reasoning-delta"
	ReasoningEnd   = "reasoning-end"

	ToolInputStart     = "tool-input-start"
	ToolInputDelta     = "tool-input-delta"
	ToolInputAvailable = "tool-input-available"
	ToolInputError     = "tool-input-error"

	ToolApprovalRequest  = "tool-approval-request"
	ToolApprovalResponse = "tool-approval-response" // V7
	ToolOutputAvailable  = "tool-output-available"
	ToolOutputError      = "tool-output-error"
	ToolOutputDenied     = "tool-output-denied"

	SourceURL      = "source-url"
	SourceDocument = "source-document"
	File           = "file"
	ReasoningFile  = "reasoning-file" // V7
	Custom         = "custom"         // V7

	MessageMetadata = "message-metadata"
	ResetStep       = "reset-step" // V7
	FinishStep      = "finish-step"
	Finish          = "finish"
	Error           = "error"
	Abort           = "abort"

	dataPrefix = "data-"
)

// Chunk is one chunk, read. Members that the SDK does not know are passed
// over, as its clients do. An absent member is a zero value.
type Chunk struct {
	Type string `json:"type"`

	ID        string `json:"id,omitzero"` // of a text, a reasoning, or data
	MessageID string `json:"messageId,omitzero"`
	Delta     string `json:"delta,omitzero"`

	ApprovalID     string         `json:"approvalId,omitzero"`
	ToolCallID     string         `json:"toolCallId,omitzero"`
	ToolName       string         `json:"toolName,omitzero"`
	Signature      string         `json:"signature,omitzero"`
	InputTextDelta string         `json:"inputTextDelta,omitzero"`
	Input          strictjson.Raw `json:"input,omitzero"`
	Output         strictjson.Raw `json:"output,omitzero"`
	ErrorText      string         `json:"errorText,omitzero"`

	InputEncoding string `json:"inputEncoding,omitzero"`

	Dynamic          bool  `json:"dynamic,omitzero"`
	ProviderExecuted bool  `json:"providerExecuted,omitzero"`
	Preliminary      bool  `json:"preliminary,omitzero"`
	IsAutomatic      bool  `json:"isAutomatic,omitzero"`
	Transient        bool  `json:"transient,omitzero"`
	Approved         *bool `json:"approved,omitzero"`

	Title     string `json:"title,omitzero"`
	SourceID  string `json:"sourceId,omitzero"`
	URL       string `json:"url,omitzero"`
	MediaType string `json:"mediaType,omitzero"`
	Filename  string `json:"filename,omitzero"`
	Kind      string `json:"kind,omitzero"`

	Data             strictjson.Raw `json:"data,omitzero"`
	MessageMetadata  strictjson.Raw `json:"messageMetadata,omitzero"`
	ProviderMetadata strictjson.Raw `json:"providerMetadata,omitzero"`
	ToolMetadata     strictjson.Raw `json:"toolMetadata,omitzero"`

	Reason       string `json:"reason,omitzero"`
	FinishReason string `json:"finishReason,omitzero"`

	// What was parsed, on one line: it may have members of a later version.
	raw []byte
}

// required are the members without which a client's validation fails the
// stream. Chunks that are not listed here are not known.
var required = map[string][]string{
	Start: nil, StartStep: nil, FinishStep: nil, ResetStep: nil, Finish: nil, Abort: nil,
	TextStart: {"id"}, TextDelta: {"id", "delta"}, TextEnd: {"id"},
	ReasoningStart: {"id"}, ReasoningDelta: {"id", "delta"}, ReasoningEnd: {"id"},
	ToolInputStart:       {"toolCallId", "toolName"},
	ToolInputDelta:       {"toolCallId", "inputTextDelta"},
	ToolInputAvailable:   {"toolCallId", "toolName", "input"},
	ToolInputError:       {"toolCallId", "toolName", "input", "errorText"},
	ToolApprovalRequest:  {"approvalId", "toolCallId"},
	ToolApprovalResponse: {"approvalId", "approved"},
	ToolOutputAvailable:  {"toolCallId", "output"},
	ToolOutputError:      {"toolCallId", "errorText"},
	ToolOutputDenied:     {"toolCallId"},
	SourceURL:            {"sourceId", "url"},
	SourceDocument:       {"sourceId", "mediaType", "title"},
	File:                 {"url", "mediaType"},
	ReasoningFile:        {"url", "mediaType"},
	Custom:               {"kind"},
	MessageMetadata:      {"messageMetadata"},
	Error:                {"errorText"},
}

var finishReasons = []string{"", "stop", "length", "content-filter", "tool-calls", "error", "other", "interrupted"}

// Parse reads one chunk. The error says which member is wrong, and quotes no
// value: a [*strictjson.Error], or a plain one for what the SDK's own
// validation would refuse.
func Parse(raw []byte) (Chunk, error) {
	var c Chunk
	if err := strictjson.Unmarshal(raw, &c, strictjson.AllowUnknownMembers()); err != nil {
		return Chunk{}, err
	}
	var present map[string]strictjson.Raw
	if err := strictjson.Unmarshal(raw, &present); err != nil {
		return Chunk{}, err
	}
	needs, known := required[c.Type]
	switch {
	case strings.HasPrefix(c.Type, dataPrefix):
		needs = []string{"data"}
	case !known:
		return Chunk{}, fmt.Errorf("type: no chunk of that type is known")
	}
	for _, name := range needs {
		if _, ok := present[name]; !ok {
			return Chunk{}, fmt.Errorf("%s: is missing in a chunk %s", name, c.Type)
		}
	}
	if err := c.checkValues(); err != nil {
		return Chunk{}, err
	}
	c.raw = oneLine(bytes.Clone(raw))
	if Poisonous(raw) {
		return c.unpoisoned()
	}
	return c, nil
}

// checkValues refuses values on which a client's validation fails the stream.
func (c *Chunk) checkValues() error {
	switch {
	case !slices.Contains(finishReasons, c.FinishReason):
		return fmt.Errorf("finishReason: is none of %s", strings.Join(finishReasons[1:], ", "))
	case c.InputEncoding != "" && c.InputEncoding != "json" && c.InputEncoding != "text":
		return errors.New("inputEncoding: is neither json nor text")
	case c.ProviderMetadata != nil && !isObjects(c.ProviderMetadata):
		return errors.New("providerMetadata: must be an object of objects")
	case c.ToolMetadata != nil && c.ToolMetadata[0] != '{':
		return errors.New("toolMetadata: must be an object")
	}
	return nil
}

// isObjects tells whether a value is an object that holds nothing but objects.
func isObjects(value strictjson.Raw) bool {
	var members map[string]strictjson.Raw
	if value[0] != '{' || strictjson.Unmarshal(value, &members) != nil {
		return false
	}
	for _, m := range members {
		if m[0] != '{' {
			return false
		}
	}
	return true
}

// Changed gives the chunk as it is to be written after a member of it was set.
func (c Chunk) Changed() Chunk {
	c.raw = nil
	return c
}

// Encode writes the chunk as one line of JSON without its end: one that was
// parsed as it came, but for line breaks between its tokens.
func (c Chunk) Encode() ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	out, err := strictjson.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("chunk %s: %w", c.Type, err)
	}
	return oneLine(out), nil
}

// oneLine turns line breaks into spaces; in JSON text they stand between
// tokens alone.
func oneLine(text []byte) []byte {
	for i, b := range text {
		if b == '\n' || b == '\r' {
			text[i] = ' '
		}
	}
	return text
}

// IsData tells whether the chunk is the sender's own data.
func (c Chunk) IsData() bool { return strings.HasPrefix(c.Type, dataPrefix) }
