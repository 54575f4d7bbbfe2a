package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/countersign/countersign/pkg/failpoint"
	"github.com/countersign/countersign/pkg/model"
)

// route is one operation of the contract.
type route struct {
	method, path string
	summary      string
	roles        []model.Role // which keys may; empty: any
	tokens       reach        // what of it a person's token may
	query        []string     // the parameters that are known; others are refused
	body         reflect.Type // nil: no body
	answer       reflect.Type // nil: nothing, or something that is no JSON
	status       int          // of a success, for the document
	serve        func(*request) (answer, error)
	duplex       bool // its answer begins while its body still comes
}

// answer is what a handler gives: a status, and a body to be written as JSON
// unless write does it.
type answer struct {
	status int
	body   any
	write  func(http.ResponseWriter) error
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func created(is bool, body any) answer {
	if is {
		return answer{status: http.StatusCreated, body: body}
	}
	return ok(body)
}

// Who may use a route: a key needs one of its roles.
var (
	backend    = []model.Role{model.RoleBackend}
	admin      = []model.Role{model.RoleAdmin}
	operators  = []model.Role{model.RoleBackend, model.RoleAdmin}
	conductors = []model.Role{model.RoleBackend, model.RoleAdmin, model.RoleApprover}
	anybody    []model.Role
)

// read is a route without a body. Out is what it answers.
func read[Out any](method, path string, roles []model.Role, query []string, summary string, serve func(*request) (answer, error)) route {
	return route{method: method, path: path, summary: summary, roles: roles, query: query,
		answer: reflect.TypeFor[Out](), status: http.StatusOK, serve: serve}
}

// write is a route with a body: In is what it takes, Out what it answers.
func write[In, Out any](method, path string, roles []model.Role, status int, summary string, serve func(*request, In) (answer, error)) route {
	return route{method: method, path: path, summary: summary, roles: roles, body: reflect.TypeFor[In](),
		answer: reflect.TypeFor[Out](), status: status,
		serve: func(r *request) (answer, error) {
			var in In
			if err := r.readBody(&in); err != nil {
				return answer{}, err
			}
			out, err := serve(r, in)
			if lost := failpoint.Hit(r.Context(), failpoint.AnswerBefore); lost != nil {
				return answer{}, lost
			}
			return out, err
		}}
}

// stream is a route whose body or answer, or both, last as long as they like.
func stream(method, path string, roles []model.Role, summary string, serve func(*request) (answer, error)) route {
	return route{method: method, path: path, summary: summary, roles: roles, answer: reflect.TypeFor[nothing](),
		status: http.StatusOK, serve: serve, duplex: method == http.MethodPost}
}

// with adds known query parameters.
func (rt route) with(query ...string) route {
	rt.query = append(slices.Clone(rt.query), query...)
	return rt
}

// open opens a route to tokens.
func (rt route) open(to reach) route {
	rt.tokens = to
	return rt
}

func (rt route) pattern() string { return rt.method + " " + rt.path }

// build makes the handler of all routes.
func (a *API) build() http.Handler {
	mux := http.NewServeMux()
	routes := a.routes()
	for _, rt := range routes {
		mux.Handle(rt.pattern(), a.crossOrigin(rt, a.traced(rt)))
	}
	a.preflights(mux, routes)
	document := openAPI(routes)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		writeRaw(w, http.StatusOK, "application/json", document)
	})
	mux.HandleFunc("GET /problems/{name}", explainProblem)
	for _, path := range notAvailable {
		mux.HandleFunc(path, a.unavailableHere)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.noRoute(w, r, mux) })
	return a.guardPath(mux)
}

// traced gives a route its span, named like the route. The incoming
// traceparent is its parent.
func (a *API) traced(rt route) http.Handler {
	return otelhttp.NewHandler(a.recovering(a.serve(rt)), rt.pattern(),
		otelhttp.WithTracerProvider(a.TracerProvider), otelhttp.WithMeterProvider(a.MeterProvider),
		otelhttp.WithPropagators(a.Propagator))
}

func (a *API) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &request{api: a, Request: r, w: w}
		if rt.duplex {
			// Without it the server reads the body before it answers, and
			// this one may not come before the answer.
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		out, err := req.run(rt)
		if err != nil {
			if rt.duplex { // nobody waits for the rest of the body
				w.Header().Set("Connection", "close")
				_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			}
			a.fail(w, r, err)
			return
		}
		if out.write == nil {
			a.writeJSON(w, r, out.status, out.body)
		} else if err := out.write(w); err != nil {
			a.fail(w, r, err)
		}
	})
}

// run does what every route has in common, in the order in which a stranger
// learns least.
func (r *request) run(rt route) (answer, error) {
	if err := r.authenticate(); err != nil {
		return answer{}, err
	}
	if err := r.mayUse(rt); err != nil {
		return answer{}, err
	}
	if err := r.readQuery(rt.query); err != nil {
		return answer{}, err
	}
	// A name that could never be one names nothing; where it would be made,
	// the handler says what is wrong with it.
	if rt.body == nil && strings.HasSuffix(rt.path, "/{name}") && model.CheckID(r.PathValue("name")) != nil {
		return answer{}, model.ErrNotFound
	}
	if err := r.mayReach(rt); err != nil {
		return answer{}, err
	}
	return rt.serve(r)
}

func words(roles []model.Role) string {
	out := make([]string, len(roles))
	for i, role := range roles {
		out[i] = string(role)
	}
	return strings.Join(out, " or ")
}

// recovering keeps the process alive when a handler fails in a way that
// nobody foresaw.
func (a *API) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if err, is := cause.(error); is && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			if cause != nil {
				a.Log.ErrorContext(r.Context(), "a handler panicked", "route", r.Pattern, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				a.fail(w, r, errPanicked)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// guardPath answers for paths that net/http would redirect: an id that is
// empty, "." or ".." must be written percent-encoded, and none is redirected
// to something else.
func (a *API) guardPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, segment := range strings.Split(r.URL.EscapedPath(), "/") {
			if i > 0 && (segment == "." || segment == ".." || segment == "" && r.URL.Path != "/") {
				a.fail(w, r, say(model.ErrNotFound, "An id within the path must not be empty; the ids . and .. are written %2E and %2E%2E."))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

var methods = []string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete,
}

// noRoute answers where no route is: with the methods that the path has, or
// with 404.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range methods {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		a.fail(w, r, say(model.ErrNotFound, "There is no such path; /openapi.json lists all."))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a.fail(w, r, errMethod)
}

// notAvailable are the parts of the contract that a later version brings.
var notAvailable = []string{
	"/v1/endpoints", "/v1/endpoints/{name}", "/v1/grants", "/v1/grants/{name}",
	"/v1/audit", "/v1/audit/verify",
}

func (a *API) unavailableHere(w http.ResponseWriter, r *http.Request) { a.fail(w, r, errNotAvailable) }
