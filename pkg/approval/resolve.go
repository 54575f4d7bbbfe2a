package approval

import (
	"context"
	"slices"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// maxEvidence bounds a person's evidence, in bytes.
const maxEvidence = 4000

// Resolve settles a run whose outcome nobody knows by a person's word.
// Errors: [Invalid], and those of [store.Store.Resolve] with what explains
// them.
func (s *Service) Resolve(ctx context.Context, from Origin, id model.CallID, req ResolutionRequest) (store.ResolvedCall, error) {
	r, err := req.read(from)
	if err != nil {
		return store.ResolvedCall{}, err
	}
	ctx, at := s.steps.Begin(ctx, "resolve")
	out, err := s.store.Resolve(ctx, from.By.Tenant, id, r)
	if out.Turn != nil {
		at.Link(out.Turn.Traceparent)
	}
	about(at, out.Turn)
	at.End(err)
	return out, err
}

func (r ResolutionRequest) read(from Origin) (model.Resolution, error) {
	f := &faults{}
	outcome := model.ResolutionOutcome(r.Outcome)
	if !slices.Contains(model.ResolutionOutcomes, outcome) {
		f.add("/outcome", "must be one of happened, did-not-happen, closed")
	}
	happened := outcome == model.ResolvedHappened
	if happened && r.Evidence == "" {
		f.add("/evidence", "is missing; say how it is known that the call took effect")
	}
	if !happened && r.Output != nil {
		f.add("/output", "belongs to a call that happened")
	}
	if len(r.Evidence) > maxEvidence {
		f.add("/evidence", "must not be longer than %d bytes", maxEvidence)
	}
	f.check("/evidence", model.CheckProse(r.Evidence))
	if err := f.err(); err != nil {
		return model.Resolution{}, err
	}
	return model.Resolution{Outcome: outcome, Output: r.Output, Evidence: r.Evidence, By: from.By, Channel: from.Channel}, nil
}
