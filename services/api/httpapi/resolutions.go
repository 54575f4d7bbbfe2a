package httpapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/view"
)

// ResolutionAnswer is what became of a resolution.
type ResolutionAnswer struct {
	Result model.ResolutionResult `json:"result" enum:"applied,already-applied"`
	Call   view.Call              `json:"call"`
	Turn   view.Turn              `json:"turn"`
	Topic  view.TopicBody         `json:"topic"`
}

func (a *API) resolveCall(r *request, in approval.ResolutionRequest) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	out, err := a.cases.Resolve(r.Context(), r.origin(), id, in)
	if err != nil {
		return answer{}, r.explainResolution(err, id)
	}
	call, err := a.Store.Call(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	topic, err := r.topicNow(out.Topic, out.Turn)
	if err != nil {
		return answer{}, err
	}
	return ok(ResolutionAnswer{out.Result, view.NewCall(call), view.NewTurn(out.Turn, out.Topic.Version), topic}), nil
}

// explainResolution adds to an error the call as it is now, what stands, and
// from when it can be resolved.
func (r *request) explainResolution(err error, id model.CallID) error {
	if !errors.Is(err, model.ErrAttemptMayBeAlive) && !errors.Is(err, model.ErrAlreadyResolved) && !errors.Is(err, model.ErrNotUnknown) {
		return err
	}
	call, readErr := r.api.Store.Call(r.Context(), r.tenant(), id)
	if readErr != nil {
		return err
	}
	return explain(err, func(p *Problem) {
		v := view.NewCall(call)
		p.Call, p.State, p.Detail = &v, string(call.Run), whyNot(err, call)
		if p.State == "" {
			p.State = string(call.State)
		}
		if alive, ok := errors.AsType[*model.AttemptMayBeAlive](err); ok {
			p.ResolvableAt, p.retryAfter = alive.Until.UTC(), alive.Wait
		}
	})
}

func whyNot(err error, call store.CallView) string {
	alive, ok := errors.AsType[*model.AttemptMayBeAlive](err)
	switch stands := call.Resolution; {
	case ok && call.Run == model.RunStarted:
		return fmt.Sprintf("Attempt %d still runs; without a sign of life it can be resolved from %s.", call.Fence, alive.Until.UTC().Format(time.RFC3339))
	case ok:
		return fmt.Sprintf("Attempt %d may still be alive; it can be resolved from %s.", call.Fence, alive.Until.UTC().Format(time.RFC3339))
	case stands != nil:
		return fmt.Sprintf("%s resolved it as %s at %s; that is final.", stands.By, stands.Outcome, stands.At.UTC().Format(time.RFC3339))
	case errors.Is(err, model.ErrAlreadyResolved):
		return "The tool's own result stands: the run has " + string(call.Run) + "."
	}
	return "The outcome of the call is not unknown: there is nothing to resolve."
}
