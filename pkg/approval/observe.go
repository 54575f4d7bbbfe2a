package approval

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
)

// steps observes the steps that happen here: evaluate, register, decide.
type steps struct {
	step.Observer
	verdicts metric.Int64Counter
	answers  metric.Int64Counter
	accepted metric.Int64Counter
	age      metric.Float64Histogram
}

func newSteps(tracer trace.Tracer, meter metric.Meter) steps {
	s := steps{Observer: step.NewObserver(tracer, meter)}
	s.verdicts, _ = meter.Int64Counter("countersign.evaluated",
		metric.WithDescription("Calls by what the policies said: allow, ask, deny, or refused before they were asked"))
	s.answers, _ = meter.Int64Counter("countersign.decided",
		metric.WithDescription("Decisions by how they were taken: applied, already-applied, recorded, refused"))
	s.accepted, _ = meter.Int64Counter("countersign.accepted",
		metric.WithDescription("Continuations that were accepted by a next turn"))
	s.age, _ = meter.Float64Histogram("countersign.approval.age", metric.WithUnit("s"),
		metric.WithDescription("Time from the question to the verdict"))
	return s
}

// judged counts one call's verdict.
func (s steps) judged(ctx context.Context, c *model.Call) {
	verdict := "refused"
	switch {
	case c.AllowedBy != "":
		verdict = string(model.ActionAllow)
	case c.Approval != nil && c.Approval.State == model.ApprovalRequested:
		verdict = string(model.ActionAsk)
	case c.Approval != nil:
		verdict = string(model.ActionDeny)
	}
	s.verdicts.Add(ctx, 1, metric.WithAttributes(attribute.String("verdict", verdict)))
}

// about says in a step's span which turn it was about.
func about(at *step.Step, t *model.Turn) {
	if t != nil {
		at.Note(attribute.String("countersign.topic", string(t.Topic)), attribute.String("countersign.turn", string(t.ID)),
			attribute.Int("countersign.calls", len(t.Calls)))
	}
}

// decided says in the step's span what was decided, and links it to the trace
// that registered the turn: no span stayed open while somebody thought.
// It also counts one answer, and how long the card had waited for a verdict.
func (s steps) decided(ctx context.Context, at *step.Step, out store.Decided, err error) {
	result, c := out.Result, out.Call
	if out.Turn != nil {
		at.Link(out.Turn.Traceparent)
		about(at, out.Turn)
	}
	if c != nil {
		at.Note(attribute.String("countersign.call", string(c.ID)))
	}
	if errors.Is(err, model.ErrUnavailable) {
		return
	}
	if err != nil {
		result = "refused"
	}
	s.answers.Add(ctx, 1, metric.WithAttributes(attribute.String("result", string(result))))
	if result == model.DecisionApplied && c != nil && c.Approval != nil {
		s.age.Record(ctx, c.Approval.DecidedAt.Sub(c.Approval.RequestedAt).Seconds())
	}
}
