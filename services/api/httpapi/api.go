package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/step"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/uimessage"
	"github.com/countersign/countersign/services/api/aisdk"
	"github.com/countersign/countersign/services/api/watch"
)

// Waiter tells when a topic has changed.
type Waiter interface {
	// Wait returns nil when the topic's version is above after, or the
	// context's error.
	Wait(ctx context.Context, key store.TopicKey, after int64) error
}

// Projections gives topics as they were projected; one that is not there is
// left out. They may be old; see [watch.Projection.Topics].
type Projections interface {
	Topics(ctx context.Context, tenant model.TenantID, ids []model.TopicID) (map[model.TopicID]json.RawMessage, error)
}

// Events streams what happens in a topic, and counts what is open; see
// [watch.Hub.Events] and [watch.Hub.Admit].
type Events interface {
	Admit(key string) (leave func(), err error)
	Events(out http.ResponseWriter, r *http.Request, sub watch.Subscription) error
}

// Deps is what the API stands on.
type Deps struct {
	Store       *store.Store
	Waiter      Waiter
	Projections Projections
	Events      Events
	Intake      *aisdk.Intake
	Windows     *aisdk.Windows
	Sign        uimessage.Sign // of questions in messages; nil signs none
	Log         *slog.Logger

	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
}

// Limits are the bounds that an operator may move.
type Limits struct {
	DefaultExpiry time.Duration // of approvals
	Body          int64         // bytes of one request's body
	Rate          float64       // requests per second of one key; 0 is no bound
	PersonRate    float64       // of one person with tokens
}

// API answers HTTP requests. It is safe for concurrent use.
type API struct {
	Deps
	limits  Limits
	cases   *approval.Service
	chat    *aisdk.Chat
	steps   step.Observer
	keys    *keyCache[model.Principal] // by hash
	minters *keyCache[store.Minter]    // by tenant and name
	rates   *rates
	people  *rates
	origins Origins
	handler http.Handler
}

// scope names the instrumentation.
const scope = "github.com/countersign/countersign/services/api"

// New makes the API with all its routes. Pages of the origins may use what is
// open to tokens.
func New(d Deps, l Limits, origins Origins) *API {
	tracer, meter := d.TracerProvider.Tracer(scope), d.MeterProvider.Meter(scope)
	cases := approval.New(d.Store, l.DefaultExpiry).Observe(tracer, meter)
	a := &API{Deps: d, limits: l, cases: cases, steps: step.NewObserver(tracer, meter), origins: origins,
		keys: newKeyCache[model.Principal](), minters: newKeyCache[store.Minter](),
		rates: newRates(l.Rate), people: newRates(l.PersonRate)}
	a.chat = &aisdk.Chat{Cases: cases, Windows: d.Windows}
	a.handler = a.build()
	return a
}

// UseCases are what the API does, for the page that does the same.
func (a *API) UseCases() *approval.Service { return a.cases }

// ServeHTTP answers whatever the API has a route for, and says so in a
// problem document where it has none.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }
