package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// maxReason bounds a reason, in bytes.
const maxReason = 4000

// Decide answers an approval. An edit is checked against the tool's schema
// and the policies before: nothing of what is refused is written. Errors:
// [Invalid], and those of [store.Store.Decide] with what explains them.
func (s *Service) Decide(ctx context.Context, from Origin, id model.ApprovalID, req DecisionRequest) (store.Decided, error) {
	d, err := req.read(from, id)
	if err != nil {
		return store.Decided{}, err
	}
	if req.UpdatedInput != nil {
		if d.Edit, err = s.edit(ctx, from.By, id, req); err != nil {
			return store.Decided{}, err
		}
	}
	ctx, at := s.steps.Begin(ctx, "decide")
	out, err := s.store.Decide(ctx, from.By.Tenant, d)
	s.steps.decided(ctx, at, out, err)
	at.End(err)
	return out, err
}

func (r DecisionRequest) read(from Origin, id model.ApprovalID) (model.Decision, error) {
	f := &faults{}
	if r.Approved == nil {
		f.add("/approved", "must be true or false")
	}
	if len(r.Reason) > maxReason {
		f.add("/reason", "must not be longer than %d bytes", maxReason)
	}
	f.check("/reason", model.CheckProse(r.Reason))
	if r.UpdatedInput != nil && r.Approved != nil && !*r.Approved {
		f.add("/updatedInput", "belongs to an approval; a denied call has no input")
	}
	if len(r.UpdatedInput) > MaxInput {
		f.add("/updatedInput", "has %d bytes; at most %d are allowed", len(r.UpdatedInput), MaxInput)
	}
	seen := f.digest(r.Digest)
	if r.DecisionID == "" {
		r.DecisionID = model.NewToken()
	}
	f.check("/decisionId", model.CheckID(r.DecisionID))
	if err := f.err(); err != nil {
		return model.Decision{}, err
	}
	return model.Decision{
		ID: r.DecisionID, Approval: id, Approved: *r.Approved, Reason: r.Reason, Seen: seen, By: from.By,
		Channel: from.Channel, Content: r.content(string(id), from.By.Subject),
	}, nil
}

func (f *faults) digest(text string) []byte {
	if text == "" {
		return nil
	}
	seen, err := hex.DecodeString(text)
	if err != nil || len(seen) != sha256.Size {
		f.add("/digest", "must be a card's digest: %d hexadecimal digits", 2*sha256.Size)
	}
	return seen
}

// edit checks a person's input for the call and gives it its digest. On a
// card that is closed already the checks do not matter: what stands is what
// is answered.
func (s *Service) edit(ctx context.Context, by model.Principal, id model.ApprovalID, req DecisionRequest) (*model.Edit, error) {
	tenant := by.Tenant
	card, err := s.store.Card(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	if !by.Sees(card.Topic) {
		return nil, model.ErrNotFound
	}
	tool := card.Call.Tool
	edit := &model.Edit{
		Input:  req.UpdatedInput,
		Digest: model.Digest(tenant, card.Call.ID, tool.Name, tool.Definition, req.UpdatedInput),
	}
	if card.Call.Approval.State != model.ApprovalRequested {
		return edit, nil
	}
	return edit, s.checkEdit(ctx, tenant, tool.Name, req)
}

func (s *Service) checkEdit(ctx context.Context, tenant model.TenantID, name string, req DecisionRequest) error {
	catalog, err := s.store.Catalog(ctx, tenant, []string{name})
	if err != nil {
		return err
	}
	j := judge{tenant: tenant, catalog: catalog, schemas: s.schemas}
	tool, known := catalog.Tools[name]
	f := &faults{}
	violations, _ := j.check(tool, req.UpdatedInput)
	for _, v := range violations {
		f.add("/updatedInput"+v.Pointer, "%s", v.Detail)
	}
	if v := j.verdict(name, tool, known, false); v.Action == model.ActionDeny {
		f.add("/updatedInput", "is denied by the policy %s", v.Policies[0])
	}
	return f.err()
}
