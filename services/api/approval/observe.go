package approval

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/model"
)

// steps observes the steps that happen here: evaluate, register, decide.
type steps struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	verdicts metric.Int64Counter
	answers  metric.Int64Counter
	age      metric.Float64Histogram
}

func newSteps(tracer trace.Tracer, meter metric.Meter) steps {
	s := steps{tracer: tracer}
	s.duration, _ = meter.Float64Histogram("countersign.api.step.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a step: evaluate, register, decide"))
	s.verdicts, _ = meter.Int64Counter("countersign.evaluated",
		metric.WithDescription("Calls by what the policies said: allow, ask, deny, or refused before they were asked"))
	s.answers, _ = meter.Int64Counter("countersign.decided",
		metric.WithDescription("Decisions by how they were taken: applied, already-applied, recorded, refused"))
	s.age, _ = meter.Float64Histogram("countersign.approval.age", metric.WithUnit("s"),
		metric.WithDescription("Time from the question to the verdict"))
	return s
}

// begin starts a step as a span; the returned function ends it.
func (s steps) begin(ctx context.Context, step string) (context.Context, func(error)) {
	start := time.Now()
	ctx, span := s.tracer.Start(ctx, step)
	return ctx, func(err error) {
		s.duration.Record(ctx, time.Since(start).Seconds(), metric.WithAttributes(attribute.String("step", step)))
		if err != nil {
			span.SetAttributes(attribute.Bool("countersign.refused", true))
		}
		span.End()
	}
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

// decided counts one answer, and how long the card had waited for a verdict.
func (s steps) decided(ctx context.Context, result model.DecisionResult, c *model.Call, err error) {
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
