package uistream

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/strictjson"
)

// The states of a tool part, as the SDK spells them.
const (
	inputStreaming    = "input-streaming"
	inputAvailable    = "input-available"
	approvalRequested = "approval-requested"
	approvalResponded = "approval-responded"
	outputAvailable   = "output-available"
	outputError       = "output-error"
	outputDenied      = "output-denied"
)

// told is a part of a message that is told as chunks.
type told struct {
	part
	Text     string    `json:"text,omitzero"`
	Approval *approval `json:"approval,omitzero"`
}

// approval is what a tool part says of the question put to people.
type approval struct {
	ID          string `json:"id"`
	Approved    *bool  `json:"approved,omitzero"`
	Reason      string `json:"reason,omitzero"`
	IsAutomatic bool   `json:"isAutomatic,omitzero"`
	Signature   string `json:"signature,omitzero"`
}

func readPart(raw []byte) (told, error) {
	var t told
	if err := strictjson.Unmarshal(raw, &t, strictjson.AllowUnknownMembers()); err != nil {
		return t, fmt.Errorf("part: %w", err)
	}
	for _, metadata := range []*strictjson.Raw{&t.ProviderMetadata, &t.CallMetadata, &t.ResultMetadata, &t.ToolMetadata} {
		*metadata = unpoisonedMetadata(*metadata)
	}
	return t, nil
}

func (t *told) isTool() bool { return t.ToolCallID != "" }

// name is the tool's.
func (t *told) name() string {
	if name, static := strings.CutPrefix(t.Type, "tool-"); static {
		return name
	}
	return t.ToolName
}

// verdict is what the part says was answered: nil where nothing was.
func (t *told) verdict() *bool {
	if t.Approval == nil {
		return nil
	}
	return t.Approval.Approved
}

func (t *told) reason() string {
	if t.Approval == nil {
		return ""
	}
	return t.Approval.Reason
}

// call are the chunks that make a client's tool part with its input.
func (t *told) call() Chunk {
	c := Chunk{Type: ToolInputAvailable, ToolCallID: t.ToolCallID, ToolName: t.name(), Input: harmless(t.Input), Dynamic: t.Type == "dynamic-tool",
		Title: t.Title, ProviderExecuted: t.ProviderExecuted, ProviderMetadata: t.CallMetadata, ToolMetadata: t.ToolMetadata}
	if t.Input == nil {
		c.Input = strictjson.Raw("null")
	}
	return c
}

// request asks for an answer; it makes the part approval-requested.
func (t *told) request() Chunk {
	return Chunk{Type: ToolApprovalRequest, ApprovalID: t.Approval.ID, ToolCallID: t.ToolCallID, Signature: t.Approval.Signature,
		IsAutomatic: t.Approval.IsAutomatic}
}

func (t *told) response() Chunk {
	return Chunk{Type: ToolApprovalResponse, ApprovalID: t.Approval.ID, Approved: t.Approval.Approved, Reason: t.Approval.Reason}
}

// toolFailed stands for the text of an error that has none.
const toolFailed = "The tool failed."

// output says how the call ended.
func (t *told) output() Chunk {
	c := Chunk{ToolCallID: t.ToolCallID, ProviderExecuted: t.ProviderExecuted, Dynamic: t.Type == "dynamic-tool", ProviderMetadata: t.ResultMetadata}
	switch t.State {
	case outputDenied:
		return Chunk{Type: ToolOutputDenied, ToolCallID: t.ToolCallID}
	case outputError:
		c.Type, c.ErrorText = ToolOutputError, cmp.Or(t.ErrorText, toolFailed)
	default:
		c.Type, c.Output = ToolOutputAvailable, harmless(t.Output)
	}
	return c
}
