package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

var _ propagation.TextMapCarrier = HeaderCarrier{}

const someTraceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceContextIsWrittenInLowerCaseAndReadInAnyCase(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"traceparent", "Traceparent", "TRACEPARENT"} {
		header := nats.Header{key: {someTraceparent}}
		ctx := propagation.TraceContext{}.Extract(t.Context(), HeaderCarrier(header))
		if !trace.SpanContextFromContext(ctx).IsValid() {
			t.Errorf("%s is not read", key)
		}
		out := nats.Header{"Traceparent": {"old"}}
		propagation.TraceContext{}.Inject(ctx, HeaderCarrier(out))
		if len(out) != 1 || len(out["traceparent"]) != 1 || out["traceparent"][0] != someTraceparent {
			t.Errorf("wrote %v, want one lower-case traceparent", out)
		}
	}
}
