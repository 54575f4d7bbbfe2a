package console

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/api/watch"
)

// Rows is what the page shows; *store.Store is one.
type Rows interface {
	Topic(ctx context.Context, tenant model.TenantID, id model.TopicID) (store.TopicView, error)
	ListTopics(ctx context.Context, tenant model.TenantID, status model.TopicStatus, after model.TopicID, limit int) ([]store.TopicView, error)
	Messages(ctx context.Context, tenant model.TenantID, topic model.TopicID, r store.Range) (store.History, error)
	Card(ctx context.Context, tenant model.TenantID, id model.ApprovalID) (store.Card, error)
	Cards(ctx context.Context, tenant model.TenantID, f store.CardFilter) ([]store.Card, error)
	Call(ctx context.Context, tenant model.TenantID, id model.CallID) (store.CallView, error)
}

// UseCases is what the page does; *approval.Service is one.
type UseCases interface {
	Decide(ctx context.Context, from approval.Origin, id model.ApprovalID, req approval.DecisionRequest) (store.Decided, error)
	Resolve(ctx context.Context, from approval.Origin, id model.CallID, req approval.ResolutionRequest) (store.ResolvedCall, error)
	AppendMessages(ctx context.Context, from approval.Origin, topic model.TopicID, req approval.MessagesRequest) (store.Appended, error)
}

// Options are what a console needs; all but Chat are required.
type Options struct {
	Rows     Rows
	UseCases UseCases
	Hub      *watch.Hub
	// Authenticate finds whom an API key names. Errors: model.ErrNotFound.
	Authenticate func(ctx context.Context, key string) (model.Principal, error)
	// StillKnown is the same for a window that is open already, which asks
	// often and is not counted for it.
	StillKnown func(ctx context.Context, key string) (model.Principal, error)
	Log        *slog.Logger
	// Chat adds a box in which a person writes to the topic, for systems with
	// a chat backend that answers there.
	Chat bool
}

// Console serves the page. It is safe for concurrent use.
type Console struct {
	Options
	log *slog.Logger
}

// New makes the console's handler. It owns /, /topic, /events, /login,
// /logout, /decide, /resolve, /say and /assets/, and answers 404 for everything else.
func New(o Options) http.Handler {
	c := &Console{Options: o, log: o.Log.With("component", "console")}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.signedIn(c.index))
	mux.HandleFunc("GET /topic", c.signedIn(c.topic))
	mux.HandleFunc("GET /events", c.signedIn(c.events))
	mux.HandleFunc("POST /decide", c.signedIn(c.decide))
	mux.HandleFunc("POST /resolve", c.signedIn(c.resolve))
	mux.HandleFunc("POST /say", c.signedIn(c.say))
	mux.HandleFunc("POST /login", c.login)
	mux.HandleFunc("POST /logout", c.logout)
	mux.Handle("GET /assets/", assets())
	return secured(http.NewCrossOriginProtection().Handler(mux))
}

// policy allows what this package serves and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm bounds a posted form in bytes: a long reason or message fits.
const maxForm = 64 << 10

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}
