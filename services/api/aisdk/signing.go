package aisdk

import (
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/pkg/uistream"
)

// Signs signs the questions in messages that are drawn from rows; nil where
// nothing is signed.
func Signs(s *uistream.Signer, v uistream.Version) uimessage.Sign {
	if s == nil {
		return nil
	}
	return func(c store.MessageCall) string {
		return s.Sign(uistream.Signed{ApprovalID: string(c.Approval.ID), ToolCallID: c.ToolCallID, ToolName: c.Tool.Name, Input: strictjson.Raw(c.Input)}, v)
	}
}

// liveSigner signs the questions within the chunks of one stream: each stands
// behind its call, as it was committed.
type liveSigner struct {
	*uistream.Signer
	version uistream.Version
	call    uistream.Chunk // the last one
}

// next gives the stream's next chunk as it is told.
func (s *liveSigner) next(c uistream.Chunk) uistream.Chunk {
	switch {
	case c.Type == uistream.ToolInputAvailable:
		s.call = c
	case c.Type == uistream.ToolApprovalRequest && s.Signer != nil && c.ToolCallID == s.call.ToolCallID:
		c.Signature = s.Sign(uistream.Signed{ApprovalID: c.ApprovalID, ToolCallID: c.ToolCallID, ToolName: s.call.ToolName, Input: s.call.Input}, s.version)
		return c.Changed()
	}
	return c
}
