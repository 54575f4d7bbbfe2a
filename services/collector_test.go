package services

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanCollector receives spans over OTLP/HTTP, as any trace back end would.
type spanCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []span
}

// span is what the tests look at.
type span struct {
	service, name     string
	trace, id, parent string
	kind              otlp.Span_SpanKind
	links             []string // "trace/span"
	about             map[string]string
	begin, end        time.Time
}

func newSpanCollector(t *testing.T) *spanCollector {
	t.Helper()
	c := &spanCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		c.take(&request)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// env makes a service send its spans here, soon.
func (c *spanCollector) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=50"}
}

func (c *spanCollector) take(request *collector.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range request.ResourceSpans {
		service := ""
		for _, a := range from.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, read(service, s))
			}
		}
	}
}

func read(service string, s *otlp.Span) span {
	out := span{
		service: service, name: s.Name, trace: hex.EncodeToString(s.TraceId), id: hex.EncodeToString(s.SpanId),
		parent: hex.EncodeToString(s.ParentSpanId), kind: s.Kind, about: map[string]string{},
		begin: time.Unix(0, int64(s.StartTimeUnixNano)), end: time.Unix(0, int64(s.EndTimeUnixNano)),
	}
	for _, a := range s.Attributes {
		out.about[a.Key] = a.Value.String()
	}
	for _, l := range s.Links {
		out.links = append(out.links, hex.EncodeToString(l.TraceId)+"/"+hex.EncodeToString(l.SpanId))
	}
	return out
}

// of gives the spans of one trace, in the order in which they began.
func (c *spanCollector) of(trace string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []span
	for _, s := range c.spans {
		if s.trace == trace {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b span) int { return a.begin.Compare(b.begin) })
	return out
}

// named gives the spans of that name, whatever their trace.
func (c *spanCollector) named(name string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s span) bool { return s.name != name })
}

// tree draws the spans below parent, a level by two spaces.
func tree(spans []span, parent string) string {
	var out strings.Builder
	for _, s := range spans {
		if s.parent == parent {
			fmt.Fprintf(&out, "%s: %s\n", strings.TrimPrefix(s.service, "countersign-"), s.name)
			for line := range strings.Lines(tree(spans, s.id)) {
				out.WriteString("  " + line)
			}
		}
	}
	return out.String()
}

// find gives the one span of that name.
func find(t *testing.T, spans []span, name string) span {
	t.Helper()
	i := slices.IndexFunc(spans, func(s span) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no span %q in:\n%s", name, tree(spans, cmp.Or(spans[0].parent, "")))
	}
	return spans[i]
}
