package step_test

import (
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/countersign/countersign/pkg/step"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestAStepIsASpanAndADuration(t *testing.T) {
	t.Parallel()
	spans, numbers := tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	o := step.NewObserver(tracer, sdkmetric.NewMeterProvider(sdkmetric.WithReader(numbers)).Meter("test"))

	ctx, s := o.Begin(step.Under(t.Context(), parent), "claim")
	s.Note(attribute.String("countersign.call", "c1"))
	s.Link(parent)
	s.Link("")
	s.End(errors.New("the model said hush"))

	span := spans.Ended()[0]
	if span.Name() != "claim" || span.Parent().SpanID().String() != "00f067aa0ba902b7" || span.Status().Code != codes.Error {
		t.Errorf("span: %s below %s, %v", span.Name(), span.Parent().SpanID(), span.Status())
	}
	if span.Status().Description != "" || len(span.Events()) != 0 {
		t.Errorf("the span repeats the error: %v, %v", span.Status(), span.Events())
	}
	if len(span.Links()) != 1 || span.Links()[0].SpanContext.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("links: %v", span.Links())
	}
	if got := step.Traceparent(ctx); !strings.HasPrefix(got, parent[:36]) || !strings.Contains(got, span.SpanContext().SpanID().String()) {
		t.Errorf("traceparent: %s", got)
	}
	var collected metricdata.ResourceMetrics
	if err := numbers.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	m := collected.ScopeMetrics[0].Metrics[0]
	point := m.Data.(metricdata.Histogram[float64]).DataPoints[0]
	name, _ := point.Attributes.Value("step")
	ok, _ := point.Attributes.Value("ok")
	if m.Name != "countersign.step.duration" || name.AsString() != "claim" || ok.AsBool() || point.Count != 1 {
		t.Errorf("metric %s: %v", m.Name, point)
	}
}

func TestWithoutATraceparentATraceBegins(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "00-0-0-0", "x"} {
		if got := step.Traceparent(step.Under(t.Context(), text)); got != "" {
			t.Errorf("%q gives %q", text, got)
		}
	}
	// What ctx was below does not shine through.
	inner := step.Under(step.Under(t.Context(), parent), "")
	if got := step.Traceparent(inner); got != "" {
		t.Errorf("the outer trace shines through: %q", got)
	}
}
