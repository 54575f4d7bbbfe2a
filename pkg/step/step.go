package step

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Observer observes the steps of one service. It is safe for concurrent use;
// the zero value is not usable.
type Observer struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
}

// NewObserver makes an observer.
func NewObserver(tracer trace.Tracer, meter metric.Meter) Observer {
	// An instrument that cannot be made counts nothing, which is no reason to
	// keep a service from its work.
	duration, _ := meter.Float64Histogram("countersign.step.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a step, by whether it came to its effect"))
	return Observer{tracer: tracer, duration: duration}
}

// Step is one step under way.
type Step struct {
	observer Observer
	ctx      context.Context
	name     string
	begin    time.Time
	span     trace.Span
}

// Begin starts a step below the span of ctx, and gives the context in which
// it happens.
func (o Observer) Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, *Step) {
	begin := time.Now()
	ctx, span := o.tracer.Start(ctx, name, options...)
	return ctx, &Step{observer: o, ctx: ctx, name: name, begin: begin, span: span}
}

// Note adds what became known on the way: ids, sizes, outcomes.
func (s *Step) Note(about ...attribute.KeyValue) { s.span.SetAttributes(about...) }

// Link says that the step also belongs to another trace; "" links nothing.
func (s *Step) Link(traceparent string) {
	if link := trace.LinkFromContext(Under(context.Background(), traceparent)); link.SpanContext.IsValid() {
		s.span.AddLink(link)
	}
}

// End ends the step; with an error it did not come to its effect. The error's
// text stays out of the span: it may quote what a tool or a person said.
func (s *Step) End(err error) {
	s.observer.duration.Record(s.ctx, time.Since(s.begin).Seconds(),
		metric.WithAttributes(attribute.String("step", s.name), attribute.Bool("ok", err == nil)))
	if err != nil {
		s.span.SetStatus(codes.Error, "")
	}
	s.span.End()
}
