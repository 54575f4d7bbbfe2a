package uistream

import "github.com/countersign/countersign/pkg/strictjson"

// Tracker follows what a client's tool parts are, chunk by chunk, so that it
// can be told of the difference alone. The zero Tracker is a client without
// any.
type Tracker struct{ parts map[string]*told }

// Know takes over a part that the client has already; what is no tool part is
// passed over.
func (t *Tracker) Know(raw strictjson.Raw) error {
	p, err := readPart(raw)
	if err == nil && p.isTool() {
		t.put(&p)
	}
	return err
}

func (t *Tracker) put(p *told) {
	if t.parts == nil {
		t.parts = map[string]*told{}
	}
	t.parts[p.ToolCallID] = p
}

// Tell notes a chunk that the client is sent.
func (t *Tracker) Tell(c Chunk) {
	p := t.parts[c.ToolCallID]
	switch c.Type {
	case ToolInputAvailable, ToolInputError:
		now := &told{part: part{ToolCallID: c.ToolCallID, State: inputAvailable, Input: c.Input}}
		if p != nil {
			now.Approval = p.Approval
		}
		if c.Type == ToolInputError {
			now.State = outputError
		}
		t.put(now)
	case ToolApprovalResponse:
		t.respond(c)
	}
	if p == nil {
		return
	}
	switch c.Type {
	case ToolApprovalRequest:
		p.State, p.Approval = approvalRequested, &approval{ID: c.ApprovalID}
	case ToolOutputAvailable:
		p.State = outputAvailable
	case ToolOutputError:
		p.State = outputError
	case ToolOutputDenied:
		p.State = outputDenied
	}
}

func (t *Tracker) respond(c Chunk) {
	for _, p := range t.parts {
		if p.Approval != nil && p.Approval.ID == c.ApprovalID {
			p.State = approvalResponded
			p.Approval.Approved, p.Approval.Reason = c.Approved, c.Reason
		}
	}
}

// Update are the chunks that bring the client's tool part to what it is now,
// and are noted; a part that is no tool's, or that the client does not have,
// has none. See [Update].
func (t *Tracker) Update(now strictjson.Raw, v Version) ([]Chunk, error) {
	is, err := readPart(now)
	if err != nil {
		return nil, err
	}
	was := t.parts[is.ToolCallID]
	if was == nil || !is.isTool() {
		return nil, nil
	}
	out := update(was, &is, v)
	for _, c := range out {
		t.Tell(c)
	}
	return out, nil
}

// Lacks tells whether raw is a tool part that the client does not have.
func (t *Tracker) Lacks(raw strictjson.Raw) bool {
	p, err := readPart(raw)
	return err == nil && p.isTool() && t.parts[p.ToolCallID] == nil
}

// Awaits tells whether the client would post by itself for ever if its stream
// ended now: it has an answer of which nothing came yet.
func (t *Tracker) Awaits() bool {
	for _, p := range t.parts {
		if p.State == approvalResponded {
			return true
		}
	}
	return false
}
