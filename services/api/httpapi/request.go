package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"

	"go.opentelemetry.io/otel/propagation"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
)

// request is one request on its way through a route.
type request struct {
	*http.Request
	api   *API
	w     http.ResponseWriter
	by    model.Principal
	via   string // the channel
	query map[string][]string
}

func (r *request) tenant() model.TenantID { return r.by.Tenant }

// origin is where the request comes from, for the audit, with the trace of
// its span.
func (r *request) origin() approval.Origin {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(r.Context(), carrier)
	return approval.Origin{By: r.by, Channel: r.via, Traceparent: carrier.Get("traceparent")}
}

func (r *request) actor() string { return r.origin().Actor() }

// readBody reads the body strictly into v. Everything about it is checked
// before anything is done.
func (r *request) readBody(v any, options ...strictjson.Option) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return errMediaType
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return errMediaType
	}
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, r.api.limits.Body))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return errTooLarge
		}
		return errMalformed // cut off, or too slow
	}
	return strictjson.Unmarshal(body, v, options...)
}

// topicID reads the topic within the path. An id that could never be one is
// an id that names nothing where it is read; where it would be made, it is
// invalid.
func (r *request) topicID() (model.TopicID, error) {
	id := r.PathValue("topic")
	if err := model.CheckID(id); err != nil {
		if r.Method == http.MethodGet {
			return "", model.ErrNotFound
		}
		return "", approval.NewInvalid("", "the topic's id within the path "+err.Error())
	}
	return model.TopicID(id), nil
}

func (r *request) topicKey(topic model.TopicID) store.TopicKey {
	return store.TopicKey{Tenant: r.tenant(), Topic: topic}
}

// idIn reads an id of ours within the path.
func idIn[ID ~string](r *request, name string) (ID, error) {
	return model.ParseUUID[ID](r.PathValue(name))
}

// readQuery refuses parameters that are not known: a misspelt minVersion
// would silently promise something else.
func (r *request) readQuery(known []string) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return approval.NewInvalid("?", "the query cannot be read")
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			return approval.NewInvalid("?", "has a parameter that is not known here")
		case len(given) > 1 && name != "id":
			return approval.NewInvalid("?"+name, "is given more than once")
		}
	}
	r.query = values
	return nil
}

// param is a query parameter's value, or "".
func (r *request) param(name string) string {
	if v := r.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
