package aisdk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/pkg/uistream"
)

// ClientMessage is an assistant message as a client has it: what it need not
// be told again, and nothing more. What happened is in the rows.
type ClientMessage struct {
	ID    model.MessageID
	Told  uistream.Tracker // its tool parts
	Steps int
}

// clientPart is what counts of a part in a client's copy.
type clientPart struct {
	Type       string          `json:"type"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	State      string          `json:"state"`
	Input      strictjson.Raw  `json:"input"`
	Approval   *clientApproval `json:"approval"`
	Metadata   struct {
		Countersign struct {
			Digest string `json:"digest"`
		} `json:"countersign"`
	} `json:"toolMetadata"`
}

type clientApproval struct {
	ID        string `json:"id"`
	Approved  *bool  `json:"approved"`
	Reason    string `json:"reason"`
	Signature string `json:"signature"`
}

func (p *clientPart) isTool() bool {
	return p.Type == "dynamic-tool" || strings.HasPrefix(p.Type, "tool-")
}

// over tells whether the client says that the call has ended.
func (p *clientPart) over() bool { return strings.HasPrefix(p.State, "output-") }

// goOn takes the answers that a client's person gave to open cards, and tells
// how the message goes on. Nothing else of the client's copy counts.
func (p *post) goOn(ctx context.Context) (http.HandlerFunc, error) {
	has := ClientMessage{ID: model.MessageID(p.last.ID)}
	h, err := p.Windows.Rows.Messages(ctx, p.sub.Topic.Tenant, p.sub.Topic.Topic, store.Range{ID: has.ID})
	if err != nil {
		return nil, err
	}
	if len(h.Messages) == 0 || h.Messages[0].Role != "assistant" {
		return nil, approval.NewInvalid(p.at+"/id", "names no message of the model in this conversation")
	}
	answers, err := p.answers(&has, rowsOf(h.Messages[0]))
	if err != nil {
		return nil, err
	}
	if err := p.decide(ctx, answers); err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) { p.Windows.Continue(w, r, p.sub, has) }, nil
}

// committedPart is what a client's part is compared with: the call that it
// shows, or nil for a part that was history when it came.
type committedPart struct{ call *store.MessageCall }

// rowsOf are a message's committed tool parts by the id of their call.
func rowsOf(m store.Message) map[string]committedPart {
	out := map[string]committedPart{}
	for _, t := range m.Turns {
		for _, raw := range uimessage.TurnParts(t) {
			if p, err := readClientPart(strictjson.Raw(raw)); err == nil && p.isTool() {
				out[p.ToolCallID] = committedPart{}
			}
		}
		for i := range t.Calls {
			out[t.Calls[i].ToolCallID] = committedPart{&t.Calls[i]}
		}
	}
	return out
}

func readClientPart(raw strictjson.Raw) (p clientPart, err error) {
	err = strictjson.Unmarshal(raw, &p, strictjson.AllowUnknownMembers())
	return p, err
}

// answers reads the client's copy part by part: what it has, and what was
// answered to cards that are open. What it can only have made up is refused.
func (p *post) answers(has *ClientMessage, rows map[string]committedPart) (out []answer, err error) {
	for i, raw := range p.last.Parts {
		at := fmt.Sprintf("%s/parts/%d", p.at, i)
		part, err := readClientPart(raw)
		if err == nil {
			err = has.Told.Know(raw)
		}
		switch {
		case err != nil:
			return nil, approval.NewInvalid(at, "is no part of the AI SDK")
		case part.Type == "step-start":
			has.Steps++
		case part.isTool():
			a, err := p.judge(at, &part, rows)
			if err != nil {
				return nil, err
			}
			if a != nil {
				out = append(out, *a)
			}
		}
	}
	return out, nil
}

// answer is what a client's person said about an open card.
type answer struct {
	approval model.ApprovalID
	request  approval.DecisionRequest
}

// judge finds what a client's tool part asks for, which is an answer to an
// open card or nothing: it may be behind the rows, but never before them. A
// signature, where they are asked for, proves that the card was shown so; it
// stands for none of the rest.
func (p *post) judge(at string, part *clientPart, rows map[string]committedPart) (*answer, error) {
	row, found := rows[part.ToolCallID]
	switch {
	case !found:
		return nil, approval.NewInvalid(at+"/toolCallId", "names no call of this message")
	case row.call == nil:
		return nil, nil
	case part.over() && !row.call.State.Settled() && row.call.Run != model.RunUnknown:
		return nil, approval.NewInvalid(at+"/state", "says that the call has ended, and it has not; results come from nobody but whoever runs it")
	case part.State != "approval-responded":
		return nil, nil
	case part.Approval == nil || part.Approval.Approved == nil:
		return nil, approval.NewInvalid(at+"/approval", "must have an id and approved")
	}
	card := row.call.Approval
	if card == nil || part.Approval.ID != string(card.ID) {
		return nil, approval.NewInvalid(at+"/approval/id", "names no card of this call")
	}
	if why := p.Windows.Signer.Check(part.signed(), part.Approval.Signature); why != "" {
		return nil, approval.NewInvalid(at+"/approval/signature", why)
	}
	if card.State != model.ApprovalRequested {
		return nil, nil // what stands is what the client is told
	}
	return &answer{card.ID, approval.DecisionRequest{Approved: part.Approval.Approved, Reason: part.Approval.Reason, Digest: part.digest()}}, nil
}

// signed is what the client shows that it was asked.
func (p *clientPart) signed() uistream.Signed {
	name, static := strings.CutPrefix(p.Type, "tool-")
	if !static {
		name = p.ToolName
	}
	return uistream.Signed{ApprovalID: p.Approval.ID, ToolCallID: p.ToolCallID, ToolName: name, Input: p.Input}
}

// digest is that of the card which the client showed, where it kept it.
func (p *clientPart) digest() string {
	digest := p.Metadata.Countersign.Digest
	if raw, err := hex.DecodeString(digest); err != nil || len(raw) != 32 {
		return ""
	}
	return digest
}

// decide gives a person's answers. One that another answer, or time, came
// before is no error: the client is told what stands.
func (p *post) decide(ctx context.Context, answers []answer) error {
	if len(answers) > 0 && !p.from.By.Has(model.RoleApprover) {
		return fmt.Errorf("answering needs the role approver: %w", model.ErrNotPermitted)
	}
	for _, a := range answers {
		_, err := p.Cases.Decide(ctx, p.from, a.approval, a.request)
		switch {
		case errors.Is(err, model.ErrAlreadyDecided), errors.Is(err, model.ErrApprovalClosed), errors.Is(err, model.ErrCardStale):
		case err != nil:
			return err
		}
	}
	return nil
}
