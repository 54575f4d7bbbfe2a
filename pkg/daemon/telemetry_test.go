package daemon_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/countersign/countersign/pkg/daemon"
)

func TestSeveralServicesInOneProcessKeepTheirMetricsApart(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"api", "worker"} {
		telemetry := newTelemetry(t, service)
		claims, err := telemetry.Meter.Int64Counter("countersign.claims")
		if err != nil {
			t.Fatal(err)
		}
		took, err := telemetry.Meter.Float64Histogram("countersign.claim", metric.WithUnit("s"))
		if err != nil {
			t.Fatal(err)
		}
		claims.Add(t.Context(), 1)
		took.Record(t.Context(), 0.002)
		page := scrape(t, telemetry.Handler)
		for _, want := range []string{
			"countersign_claims_total{", "} 1\n", `service_name="` + service + `"`, `service_version="v1"`,
			`countersign_claim_seconds_bucket{`, `le="0.0025"`, "go_goroutines",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("the metrics of %s lack %q:\n%s", service, want, page)
			}
		}
	}
}

func TestWithoutAnEndpointNothingIsRecordedAndATraceGoesOn(t *testing.T) {
	t.Parallel()
	telemetry := newTelemetry(t, "api")
	ctx, span := telemetry.Tracer.Start(t.Context(), "register")
	defer span.End()
	if span.IsRecording() {
		t.Error("a span that nobody will see records")
	}
	headers := propagation.MapCarrier{}
	telemetry.Propagator.Inject(ctx, headers)
	if id := span.SpanContext().TraceID().String(); !strings.Contains(headers["traceparent"], id) {
		t.Errorf("headers = %v, want a traceparent with %s", headers, id)
	}
}

func TestSpansGoToTheEndpointUnderTheNameOfTheEnvironment(t *testing.T) {
	received := make(chan *collector.ExportTraceServiceRequest, 1)
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		received <- readSpans(t, r)
	}))
	defer endpoint.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.URL)
	t.Setenv("OTEL_SERVICE_NAME", "my-api")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	telemetry := newTelemetry(t, "api")
	_, span := telemetry.Tracer.Start(t.Context(), "decide", trace.WithSpanKind(trace.SpanKindServer))
	span.End()
	if err := telemetry.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := (<-received).ResourceSpans[0]
	attributes := map[string]string{}
	for _, attribute := range spans.Resource.Attributes {
		attributes[attribute.Key] = attribute.Value.GetStringValue()
	}
	if attributes["service.name"] != "my-api" || attributes["deployment.environment.name"] != "test" {
		t.Errorf("resource = %v", attributes)
	}
	if name := spans.ScopeSpans[0].Spans[0].Name; name != "decide" {
		t.Errorf("span %q arrived, want decide", name)
	}
}

func newTelemetry(t *testing.T, service string) *daemon.Telemetry {
	t.Helper()
	telemetry, err := daemon.NewTelemetry(t.Context(), service, "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = telemetry.Shutdown(context.Background()) }) // a second time in some tests
	return telemetry
}

func scrape(t *testing.T, handler http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

func readSpans(t *testing.T, r *http.Request) *collector.ExportTraceServiceRequest {
	t.Helper()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return nil
		}
		body = unzipped
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Error(err)
	}
	var spans collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(content, &spans); err != nil {
		t.Error(err)
	}
	return &spans
}
