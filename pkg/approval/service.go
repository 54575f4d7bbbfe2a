package approval

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/toolschema"
)

// Store is what the use cases need of the database.
type Store interface {
	Catalog(ctx context.Context, tenant model.TenantID, names []string) (store.Catalog, error)
	Notes(ctx context.Context, tenant model.TenantID, turns ...model.TurnID) (map[model.TurnID][]model.Note, error)
	Register(ctx context.Context, r store.Registration) (store.Registered, error)
	FinishLive(ctx context.Context, tenant model.TenantID, e store.Ending) (store.Registered, error)
	AbandonLive(ctx context.Context, tenant model.TenantID, e store.Ending) (store.Registered, error)
	BeginStream(ctx context.Context, tenant model.TenantID, w store.Streamer, lease time.Duration) (store.Streaming, error)
	RenewStream(ctx context.Context, tenant model.TenantID, w store.Streamer, lease time.Duration) error
	ExtendLive(ctx context.Context, tenant model.TenantID, e store.Extension) (store.Registered, error)
	Turn(ctx context.Context, tenant model.TenantID, id model.TurnID) (*model.Turn, error)
	AppendMessages(ctx context.Context, tenant model.TenantID, a store.Appending) (store.Appended, error)
	Card(ctx context.Context, tenant model.TenantID, id model.ApprovalID) (store.Card, error)
	Decide(ctx context.Context, tenant model.TenantID, d model.Decision) (store.Decided, error)
	Resolve(ctx context.Context, tenant model.TenantID, call model.CallID, r model.Resolution) (store.ResolvedCall, error)
}

// Service is the use cases. It is safe for concurrent use.
type Service struct {
	store   Store
	schemas *toolschema.Cache
	expiry  time.Duration
	steps   steps
}

// keptSchemas bounds the compiled schemas of a node: more than a busy
// installation has tools, some kilobytes each.
const keptSchemas = 2000

// New makes the use cases. expiry is how long approvals stay open when a turn
// does not say.
func New(s Store, expiry time.Duration) *Service {
	return &Service{
		store: s, schemas: toolschema.NewCache(keptSchemas), expiry: expiry,
		steps: newSteps(nooptrace.NewTracerProvider().Tracer(""), noopmetric.NewMeterProvider().Meter("")),
	}
}

// Observe lets the steps be seen as spans and counted. It is called before
// the first use.
func (s *Service) Observe(tracer trace.Tracer, meter metric.Meter) *Service {
	s.steps = newSteps(tracer, meter)
	return s
}

// Origin is where a request comes from, for the audit.
type Origin struct {
	By          model.Principal
	Channel     string // "api", "cli", "page"
	Traceparent string // of the request's span
}

// Actor names who did it, and the key by which a person did.
func (o Origin) Actor() string { return o.By.Actor() }
