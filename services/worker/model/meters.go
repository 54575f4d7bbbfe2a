package model

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// meters are the loop's numbers: how long a model took, and how that ended.
type meters struct{ chats metric.Float64Histogram }

func newMeters(m metric.Meter) meters {
	var out meters
	out.chats, _ = m.Float64Histogram("countersign.model.duration", metric.WithUnit("s"),
		metric.WithDescription("From asking a model to the end of its answer, by how it ended"))
	return out
}

// chatting is a span about one request to a provider, named as the
// conventions for generative AI name it.
type chatting struct {
	trace.Span
	began time.Time
}

func (a *answering) chat(ctx context.Context, r request) (context.Context, chatting) {
	ctx, span := a.tracer.Start(ctx, "chat "+r.model, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
		attribute.String("gen_ai.request.model", r.model), attribute.String("gen_ai.conversation.id", r.conversation),
		attribute.String("server.address", a.provider.host), attribute.String("countersign.turn", string(a.turn.ID))))
	return ctx, chatting{span, time.Now()}
}

func (a *answering) chatted(ctx context.Context, c chatting, t *translation, err error) {
	ended := t.finish
	if err != nil {
		ended = kindOf(err)
		c.SetAttributes(attribute.String("error.type", ended))
		c.SetStatus(codes.Error, "") // the text may quote what a model said
	} else {
		c.SetAttributes(attribute.StringSlice("gen_ai.response.finish_reasons", []string{t.finish}))
	}
	if t.model != "" {
		c.SetAttributes(attribute.String("gen_ai.response.model", t.model))
	}
	if t.in+t.out > 0 {
		c.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", t.in), attribute.Int64("gen_ai.usage.output_tokens", t.out))
	}
	a.meters.chats.Record(ctx, time.Since(c.began).Seconds(), metric.WithAttributes(attribute.String("ended", ended)))
	c.End()
}

func kindOf(err error) string {
	if f, ok := errors.AsType[*Failure](err); ok && f.Kind != "" {
		return f.Kind
	}
	return "interrupted"
}
