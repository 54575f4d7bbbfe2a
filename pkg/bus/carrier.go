package bus

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// traceparentKey is the W3C header that links a message to its trace.
const traceparentKey = "traceparent"

// HeaderCarrier carries trace context in NATS headers; it is an OpenTelemetry
// propagation.TextMapCarrier. NATS keeps the case of header keys and W3C asks
// for lower case, so it writes lower case; it reads any case, since clients
// in other languages write Traceparent.
type HeaderCarrier nats.Header

// Get gives the first value of key, written in whatever case.
func (c HeaderCarrier) Get(key string) string {
	if values := c[strings.ToLower(key)]; len(values) > 0 {
		return values[0]
	}
	for name, values := range c {
		if len(values) > 0 && strings.EqualFold(name, key) {
			return values[0]
		}
	}
	return ""
}

// Set replaces key, in whatever case it was, by its lower-case form.
func (c HeaderCarrier) Set(key, value string) {
	for name := range c {
		if strings.EqualFold(name, key) {
			delete(c, name)
		}
	}
	c[strings.ToLower(key)] = []string{value}
}

// Keys lists the header names as they were written.
func (c HeaderCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for name := range c {
		keys = append(keys, name)
	}
	return keys
}

// traceparentOf gives the W3C trace context of ctx, or nothing.
func traceparentOf(ctx context.Context) string {
	carrier := HeaderCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(traceparentKey)
}
