package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/term"
)

// The keys under which logs carry the ids of things, everywhere the same.
const (
	KeyTenant   = "tenant"
	KeyTopic    = "topic"
	KeyTurn     = "turn"
	KeyCall     = "call"
	KeyApproval = "approval"
	KeyError    = "err"
)

// NewLogger writes to w: format "json", "text", or "auto", which is text on a
// terminal and JSON elsewhere. level is "debug", "info", "warn" or "error"; an
// unknown one is info. Lines logged with the context of a span carry its ids.
func NewLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // stays info
	if format == "text" || format == "auto" && isTerminal(w) {
		options := &tint.Options{Level: least, TimeFormat: "15:04:05.000", NoColor: !isTerminal(w)}
		return slog.New(traced{tint.NewTextHandler(w, options)})
	}
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least})})
}

func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// traced adds the ids of the context's span, so that a log line leads to its
// trace.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }
