package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/services/api/view"
	"github.com/countersign/countersign/services/api/watch"
)

// Problem is an answer that is not 2xx (RFC 9457), with the object that
// explains it.
type Problem struct {
	Type     string         `json:"type" doc:"/problems/<name>; GET it for an explanation."`
	Title    string         `json:"title"`
	Status   int            `json:"status"`
	Detail   string         `json:"detail"`
	Instance string         `json:"instance"`
	Errors   []ProblemError `json:"errors,omitzero" doc:"What is wrong with the request, place by place."`

	Approval *view.Card `json:"approval,omitzero" doc:"The card as it is now."`
	Turn     *view.Turn `json:"turn,omitzero" doc:"The turn that is in the way, with its continuation."`
	Call     *view.Call `json:"call,omitzero" doc:"The call as it is now."`
	State    string     `json:"state,omitzero" doc:"In which state the thing is that the request wanted in another."`

	ResolvableAt time.Time `json:"resolvableAt,omitzero" doc:"From when the call can be resolved."`

	retryAfter time.Duration // 0: as long as the kind of problem wants
}

// ProblemError is one thing that is wrong with a request.
type ProblemError struct {
	Pointer string `json:"pointer" doc:"RFC 6901, into the body; ?name is a query parameter."`
	Detail  string `json:"detail"`
}

// The errors of HTTP itself, beside the model's sentinels.
var (
	errMalformed       = errors.New("the body is not strict JSON")
	errUnauthenticated = fmt.Errorf("no key that is known here: %w", model.ErrNotFound)
	errTooLarge        = errors.New("the body is too large")
	errMediaType       = errors.New("the body must be sent as application/json")
	errRateLimited     = errors.New("too many requests; wait and try again")
	errNotAvailable    = errors.New("this part of the contract is not available in this version")
	errMethod          = errors.New("the path does not take this method")
	errPanicked        = errors.New("a handler panicked")
)

// said is an error with a sentence for people, in place of the kind's.
type said struct {
	error
	text string
}

func (e *said) Unwrap() error { return e.error }

func say(err error, text string) error { return &said{err, text} }

// explained is an error with the object that explains it.
type explained struct {
	error
	explain func(*Problem)
}

func (e *explained) Unwrap() error { return e.error }

func explain(err error, with func(*Problem)) error { return &explained{err, with} }

// problemOf is the one place where an error becomes a problem.
func problemOf(err error) Problem {
	k := kindOf(err)
	p := Problem{Type: "/problems/" + k.name, Title: k.title, Status: k.status, Detail: k.explanation}
	if said, ok := errors.AsType[*said](err); ok {
		p.Detail = said.text
	}
	if _, ok := errors.AsType[*store.DuplicateToolCall](err); ok {
		err = approval.NewInvalid("/parts", "hold a toolCallId that the message has already")
	}
	if invalid, ok := errors.AsType[*approval.Invalid](err); ok {
		for _, f := range invalid.Faults {
			p.Errors = append(p.Errors, ProblemError{f.Pointer, f.Detail})
		}
		p.Detail = fmt.Sprintf("%d of the request's values cannot be accepted", len(p.Errors))
	}
	if mismatch, ok := errors.AsType[*strictjson.Error](err); ok {
		p.Errors = []ProblemError{{mismatch.Pointer, mismatch.Detail}}
		p.Detail = "The body cannot be read: " + mismatch.Error()
	}
	if e, ok := errors.AsType[*explained](err); ok {
		e.explain(&p)
	}
	return p
}

func kindOf(err error) kind {
	if mismatch, ok := errors.AsType[*strictjson.Error](err); ok && mismatch.Kind == strictjson.Malformed {
		err = errMalformed
	} else if ok {
		err = model.ErrInvalid
	}
	if errors.Is(err, watch.ErrTooManyStreams) {
		err = errRateLimited
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return internal
}

// fail writes err as a problem document.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // the asker is gone
	}
	p := problemOf(err)
	p.Instance = r.URL.EscapedPath()
	if p.Status >= 500 {
		a.Log.ErrorContext(r.Context(), "a request failed", "route", r.Pattern, "status", p.Status, "err", err)
	}
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		p.retryAfter = retryAfter
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="countersign"`)
	}
	out, encodeErr := strictjson.Marshal(p)
	if encodeErr != nil {
		out = []byte(`{"type":"/problems/internal","title":"Internal error","status":500,"detail":"","instance":""}`)
	}
	writeRaw(w, p.Status, "application/problem+json", out)
}

// retryAfter is when asking again may help, where nobody knows better.
const retryAfter = time.Second

func (a *API) writeJSON(w http.ResponseWriter, r *http.Request, status int, body any) {
	if body == nil {
		w.WriteHeader(status)
		return
	}
	out, err := strictjson.Marshal(body)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	writeRaw(w, status, "application/json", out)
}

func writeRaw(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the asker may be gone
}
