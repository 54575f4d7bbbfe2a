package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scope names the instrumentation of Countersign itself.
const scope = "github.com/countersign/countersign"

// Telemetry is one service's traces and metrics. Several can live in one
// process: none touches the globals before [Telemetry.Install].
type Telemetry struct {
	// Tracer and Meter are those of Countersign's own instrumentation.
	Tracer trace.Tracer
	Meter  metric.Meter
	// TracerProvider, MeterProvider and Propagator are for libraries that
	// bring their own instrumentation.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
	// Handler serves the metrics to Prometheus.
	Handler http.Handler

	shutdowns []func(context.Context) error
}

// NewTelemetry sets up traces and metrics of one service by the standard
// OTEL_* variables: spans are exported over OTLP/HTTP only when
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set
// (headers, timeout and sampler come from their variables too), and
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over the arguments. The
// exporter connects when it has something to send, never here.
func NewTelemetry(ctx context.Context, service, version string) (*Telemetry, error) {
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(service), semconv.ServiceVersion(version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	t := &Telemetry{Propagator: propagation.NewCompositeTextMapPropagator(
		propagation.TraceContext{}, propagation.Baggage{})}
	if err := t.startTraces(ctx, about); err != nil {
		return nil, err
	}
	if err := t.startMetrics(about); err != nil {
		return nil, err
	}
	t.Tracer = t.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(version))
	t.Meter = t.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(version))
	return t, nil
}

func (t *Telemetry) startTraces(ctx context.Context, about *resource.Resource) error {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about)}
	if exportsTraces() {
		exporter, err := otlptracehttp.New(ctx)
		if err != nil {
			return fmt.Errorf("export of traces: %w", err)
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	} else {
		// Spans still get ids, which lead through logs and messages, but
		// record nothing that nobody would see.
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())))
	}
	provider := sdktrace.NewTracerProvider(options...)
	t.TracerProvider = provider
	t.shutdowns = append(t.shutdowns, provider.Shutdown)
	return nil
}

func exportsTraces() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// secondsBounds are the histogram bounds of everything measured in seconds:
// from a commit (milliseconds) to a person's answer (hours, a day).
var secondsBounds = []float64{
	.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600, 86400,
}

func (t *Telemetry) startMetrics(about *resource.Resource) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry))
	if err != nil {
		return fmt.Errorf("export of metrics: %w", err)
	}
	seconds := sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram, Unit: "s"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: secondsBounds}},
	)
	provider := sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(exporter), sdkmetric.WithResource(about), sdkmetric.WithView(seconds))
	t.MeterProvider = provider
	t.shutdowns = append(t.shutdowns, provider.Shutdown)
	t.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return nil
}

// installed is done once: OpenTelemetry's globals are the process's.
var installed sync.Once

// Install makes this telemetry the process's own, for code that uses the
// global OpenTelemetry API, and logs what the SDK complains about. In a process
// of several services the first one's is installed, and the others' is not.
func (t *Telemetry) Install(log *slog.Logger) {
	installed.Do(func() {
		otel.SetTracerProvider(t.TracerProvider)
		otel.SetMeterProvider(t.MeterProvider)
		otel.SetTextMapPropagator(t.Propagator)
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			log.Warn("telemetry was lost", KeyError, err)
		}))
	})
}

// Shutdown sends what is still buffered, as long as ctx allows.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var failed []error
	for _, shutdown := range t.shutdowns {
		failed = append(failed, shutdown(ctx))
	}
	return errors.Join(failed...)
}
