package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/daemon"
)

func TestALineLeadsToItsTrace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(context.Background(), span)
	log := daemon.NewLogger(&out, "auto", "warn").With(daemon.KeyTenant, "acme")
	log.InfoContext(ctx, "below the level")
	log.WarnContext(ctx, "shown", daemon.KeyTopic, "chat-1")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %v\n%s", err, out.String())
	}
	for key, want := range map[string]any{
		"msg": "shown", "tenant": "acme", "topic": "chat-1",
		"trace_id": span.TraceID().String(), "span_id": span.SpanID().String(),
	} {
		if line[key] != want {
			t.Errorf("%s = %v, want %v", key, line[key], want)
		}
	}
}

func TestTextToAFileHasNoColours(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	daemon.NewLogger(&out, "text", "debug").Debug("plain", "n", 1)
	if text := out.String(); !strings.Contains(text, "plain n=1") || strings.Contains(text, "\x1b") {
		t.Errorf("line = %q", text)
	}
}
