package bus

import (
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// Option changes how [Connect] connects.
type Option func(*options)

type options struct {
	credentials string
	caFile      string
	replicas    int
	meter       metric.Meter
	onClosed    func(error)
	timing      timing
}

// timing holds the bounds of every wait; tests shorten them.
type timing struct {
	publish       time.Duration // a batch waits that long for its acknowledgements when its context sets no deadline
	settle        time.Duration // an acknowledgement waits that long for the server's confirmation
	api           time.Duration // one JetStream API request, about a stream or a consumer
	repair        time.Duration // least time between two repairs of the streams
	ackWait       time.Duration // a delivered message that nobody settles or extends is delivered again
	pullExpiry    time.Duration // a pull request lives that long on the server
	pullHeartbeat time.Duration // the server says that often that a pull request lives
	watchdog      time.Duration // a consumer that gets nothing for so long is looked at
	backoff       time.Duration // least pause before a consumer is set up again; doubles up to twenty times that
	dropCheck     time.Duration // a subscription is looked at that often for signals it dropped
	pendingLimit  int           // signals that one subscription buffers
}

func defaultOptions() options {
	return options{
		meter:    otel.Meter("github.com/countersign/countersign/pkg/bus"),
		onClosed: func(error) {},
		timing: timing{
			publish:       5 * time.Second,
			settle:        5 * time.Second,
			api:           5 * time.Second,
			repair:        500 * time.Millisecond,
			ackWait:       30 * time.Second,
			pullExpiry:    10 * time.Second,
			pullHeartbeat: 2 * time.Second,
			watchdog:      15 * time.Second,
			backoff:       100 * time.Millisecond,
			dropCheck:     time.Second,
			pendingLimit:  65_536,
		},
	}
}

// WithCredentials names a NATS credentials file (JWT and seed).
func WithCredentials(file string) Option { return func(o *options) { o.credentials = file } }

// WithRootCAs names a PEM file with the authorities to trust, and asks for TLS.
func WithRootCAs(file string) Option { return func(o *options) { o.caFile = file } }

// WithReplicas sets how many servers hold each stream: 3 on a cluster. Zero,
// the default, makes new streams with 1 and leaves existing ones as they are.
func WithReplicas(n int) Option { return func(o *options) { o.replicas = n } }

// WithMeter sets where the counters go; the global meter otherwise.
func WithMeter(meter metric.Meter) Option { return func(o *options) { o.meter = meter } }

// WithOnClosed sets what is called when the connection is closed for good,
// other than by [Bus.Close]. Nothing can be sent or received after that; a
// daemon ends and lets its supervisor start it again.
func WithOnClosed(closed func(error)) Option { return func(o *options) { o.onClosed = closed } }
