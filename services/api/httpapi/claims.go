package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/services/api/view"
)

// claimRequest starts a call that the backend runs itself.
type claimRequest struct {
	ClaimID string `json:"claimId" doc:"Made by the caller: the same id again gets the same answer."`
	Lease   string `json:"lease,omitzero" doc:"60s by default, 10m at most; a heartbeat renews it."`
}

// ClaimAnswer is a started call: whoever has it runs it.
type ClaimAnswer struct {
	Fence      int64          `json:"fence"`
	Token      string         `json:"token"`
	LeaseUntil time.Time      `json:"leaseUntil"`
	Digest     string         `json:"digest"`
	Input      strictjson.Raw `json:"input" doc:"The exact input that was approved."`
}

func (a *API) claimCall(r *request, in claimRequest) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	if err := model.CheckID(in.ClaimID); err != nil {
		return answer{}, approval.NewInvalid("/claimId", err.Error())
	}
	lease, err := leaseOf(in.Lease)
	if err != nil {
		return answer{}, err
	}
	p, err := a.Store.Prepare(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	if p.Call.Tool.Executor != model.ExecutorCaller {
		return answer{}, r.explainCall(say(model.ErrNotClaimable, "A worker runs this call, not the caller."), id)
	}
	if err := r.stopDenied(p); err != nil {
		return answer{}, r.explainCall(err, id)
	}
	c := p.Call
	ctx, at := a.steps.Begin(r.Context(), "claim", callSpan(id))
	claimed, err := a.Store.Claim(ctx, r.tenant(), id, model.Claim{
		Token: r.claimToken(id, in.ClaimID), Worker: "key:" + r.by.Key, Lease: lease,
		Digest: model.Digest(r.tenant(), c.ID, c.Tool.Name, c.Tool.Definition, p.Input),
	})
	linkTurn(at, claimed.Turn)
	at.End(err)
	if err != nil {
		return answer{}, r.explainCall(err, id)
	}
	return ok(ClaimAnswer{
		claimed.Call.Fence, claimed.Call.ClaimToken, claimed.Call.LeaseUntil.UTC(), hex.EncodeToString(claimed.Call.Digest),
		strictjson.Raw(p.Input),
	}), nil
}

// callSpan names the call in a step's span.
func callSpan(id model.CallID) trace.SpanStartOption {
	return trace.WithAttributes(attribute.String("countersign.call", string(id)))
}

// linkTurn links a step in the caller's own trace to the trace of the turn.
func linkTurn(at *step.Step, t *model.Turn) {
	if t != nil {
		at.Link(t.Traceparent)
	}
}

// stopDenied stops a call that a policy forbids meanwhile, as a worker would.
func (r *request) stopDenied(p store.Prepared) error {
	if p.Call.Run != model.RunQueued {
		return nil
	}
	s := policy.Subject{Tool: p.Definition, Server: p.Server, Known: p.Definition.Name != ""}
	s.Tool.Name = p.Call.Tool.Name
	reason, denied := policy.Denied(s, p.Policies)
	if !denied {
		return nil
	}
	if err := r.api.Store.StopQueued(r.Context(), r.tenant(), p.Call.ID, reason+" The tool did not run."); err != nil {
		return err
	}
	return model.ErrNotClaimable
}

// claimToken is made of the claimId, so that the same claim again is known,
// and of everything that must not share it.
func (r *request) claimToken(call model.CallID, claimID string) string {
	h := sha256.New()
	for _, text := range []string{"countersign-claim-v1", string(r.tenant()), r.by.Key, string(call), claimID} {
		sum := sha256.Sum256([]byte(text))
		h.Write(sum[:])
	}
	return "claim_" + hex.EncodeToString(h.Sum(nil))
}

func leaseOf(text string) (time.Duration, error) {
	if text == "" {
		return approval.DefaultLease, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > approval.MaxLease {
		return 0, approval.NewInvalid("/lease", `must be a duration between "1s" and "10m"`)
	}
	return d, nil
}

// explainCall adds the call as it is now to an error about it.
func (r *request) explainCall(err error, id model.CallID) error {
	if errors.Is(err, model.ErrNotFound) || errors.Is(err, model.ErrUnavailable) {
		return err
	}
	call, readErr := r.api.Store.Call(r.Context(), r.tenant(), id)
	if readErr != nil {
		return err
	}
	return explain(err, func(p *Problem) {
		v := view.NewCall(call)
		p.Call, p.State = &v, string(v.State)
		if v.Run != "" {
			p.State = string(v.Run)
		}
	})
}

// heartbeatRequest renews the lease of a claimed call.
type heartbeatRequest struct {
	Fence int64  `json:"fence"`
	Token string `json:"token"`
	Lease string `json:"lease,omitzero" doc:"60s by default, 10m at most."`
}

// HeartbeatAnswer is a renewed lease.
type HeartbeatAnswer struct {
	LeaseUntil time.Time `json:"leaseUntil"`
	Cancel     bool      `json:"cancel" doc:"The turn has ended: stop if that is possible. A result is recorded all the same."`
}

func (a *API) heartbeatCall(r *request, in heartbeatRequest) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	lease, err := leaseOf(in.Lease)
	if err != nil {
		return answer{}, err
	}
	var renewed []store.Renewed
	if model.CheckID(in.Token) == nil { // any other is nobody's token
		renewed, err = a.Store.RenewLeases(r.Context(), r.tenant(), []store.Renewal{{Call: id, Fence: in.Fence, Token: in.Token}}, lease.Milliseconds())
	}
	if err != nil {
		return answer{}, err
	}
	if len(renewed) == 1 {
		return ok(HeartbeatAnswer{renewed[0].LeaseUntil.UTC(), renewed[0].Cancel}), nil
	}
	if _, err := a.Store.Call(r.Context(), r.tenant(), id); err != nil {
		return answer{}, err
	}
	return answer{}, r.explainCall(model.ErrFenceLost, id)
}

// resultRequest ends a claimed call, with exactly one of output, errorText
// and unknown.
type resultRequest struct {
	Fence     int64          `json:"fence"`
	Token     string         `json:"token"`
	Output    strictjson.Raw `json:"output,omitzero" doc:"What the tool gave: any JSON value."`
	ErrorText string         `json:"errorText,omitzero" doc:"What the tool said when it definitely did not do it."`
	Unknown   bool           `json:"unknown,omitzero" doc:"Nobody can say whether it happened."`
}

// ResultAnswer is what a result made of the call and its turn.
type ResultAnswer struct {
	Call    view.Call `json:"call"`
	Turn    view.Turn `json:"turn"`
	Version int64     `json:"version" doc:"The topic's version after it."`
}

func (in resultRequest) read() (model.Result, error) {
	given := 0
	for _, is := range []bool{in.Output != nil, in.ErrorText != "", in.Unknown} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return model.Result{}, approval.NewInvalid("", "must have exactly one of output, errorText and unknown")
	case in.Output != nil:
		return model.Result{Kind: model.ResultSucceeded, Output: in.Output}, nil
	case in.ErrorText != "":
		return model.Result{Kind: model.ResultFailed, Text: in.ErrorText}, nil
	}
	return model.Result{Kind: model.ResultUnknown, Text: "The caller does not know whether it happened."}, nil
}

func (a *API) resultOfCall(r *request, in resultRequest) (answer, error) {
	id, err := idIn[model.CallID](r, "call")
	if err != nil {
		return answer{}, err
	}
	result, err := in.read()
	if err != nil {
		return answer{}, err
	}
	ctx, at := a.steps.Begin(r.Context(), "finish", callSpan(id))
	out, err := a.Store.Finish(ctx, r.tenant(), id, in.Fence, in.Token, result)
	linkTurn(at, out.Turn)
	at.End(err)
	if err != nil {
		return answer{}, r.explainCall(err, id)
	}
	call, err := a.Store.Call(r.Context(), r.tenant(), id)
	if err != nil {
		return answer{}, err
	}
	version, err := a.Store.Version(r.Context(), r.tenant(), out.Turn.Topic)
	if err != nil {
		return answer{}, err
	}
	return ok(ResultAnswer{view.NewCall(call), view.NewTurn(out.Turn, 0), version}), nil
}
