package console

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/visible"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// doubt is a call whose outcome is unknown, as a person sees it who is to find
// out.
type doubt struct {
	Call     model.CallID
	Topic    model.TopicID
	Attempts []attempt
	From     time.Time // before it no answer is taken; zero: it has passed
	Refused  string    // why this person may not answer, or ""
}

// attempt is one try to run a call.
type attempt struct {
	Fence    int64
	Worker   string
	Started  time.Time
	Finished time.Time
	Outcome  string
	Detail   string
}

// doubts reads what few calls of a conversation have: attempts that matter
// because the outcome is not known, or a person's resolution.
func (c *Console) doubts(ctx context.Context, tenant model.TenantID, h store.History) (map[model.CallID]store.CallView, error) {
	out := map[model.CallID]store.CallView{}
	for _, m := range h.Messages {
		for _, t := range m.Turns {
			for _, call := range t.Calls {
				if call.Run != model.RunUnknown && call.Resolution == nil {
					continue
				}
				view, err := c.Rows.Call(ctx, tenant, call.ID)
				if err != nil {
					return nil, err
				}
				out[call.ID] = view
			}
		}
	}
	return out, nil
}

func newDoubt(c store.CallView, p model.Principal, requestedBy string) *doubt {
	out := &doubt{Call: c.ID, Topic: c.Topic}
	if from := c.ResolvableAt(); time.Now().Before(from) {
		out.From = from
	}
	for _, a := range c.Attempts {
		out.Attempts = append(out.Attempts, attempt{a.Fence, visible.Line(a.Worker), a.StartedAt, a.FinishedAt, a.Outcome, visible.Text(a.Detail)})
	}
	rule := model.Requirement{}
	if c.Approval != nil {
		rule = c.Approval.Rule
	}
	out.Refused = whyNot(rule, p, requestedBy)
	return out
}

var resolvedTexts = map[model.ResolutionOutcome]string{
	model.ResolvedHappened:     "It happened, says",
	model.ResolvedDidNotHappen: "It did not happen, says",
	model.ResolvedClosed:       "Nobody can tell, says",
}

func newResolved(r *model.Resolved) *verdict {
	return &verdict{Text: resolvedTexts[r.Outcome], By: visible.Line(r.By), At: r.At, Reason: visible.Text(r.Evidence)}
}

// repeated warns of a call that may do again what was done already.
func repeated(e *store.Earlier) string {
	if e == nil {
		return ""
	}
	how := "whose outcome is not known"
	switch {
	case e.Resolution == model.ResolvedHappened:
		how = "of which a person found that it happened"
	case e.Resolution == model.ResolvedDidNotHappen:
		how = "of which a person found that it did not happen"
	case e.Resolution == model.ResolvedClosed:
		how = "of which nobody could tell whether it happened"
	case e.Run != model.RunUnknown:
		how = "whose outcome was not known for a time; it has " + string(e.Run)
	}
	return "Possible duplicate: the same tool with the same arguments as an earlier call here, " + how + " (" + string(e.Call) + ")."
}
