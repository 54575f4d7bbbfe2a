package httpapi

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/strictjson"
)

// anyJSON is any JSON value, in the document.
type anyJSON struct{}

// Schema is that of any JSON value.
func (anyJSON) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Any JSON value."}
}

// duration is a length of time as it stands in JSON.
type duration struct{}

// Schema is that of a duration.
func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: `A duration, such as "30s" or "24h".`, Examples: []any{"30s"}}
}

// openAPI makes the document of all routes from the types that they take and
// give.
func openAPI(routes []route) []byte {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	registry.RegisterTypeAlias(reflect.TypeFor[strictjson.Raw](), reflect.TypeFor[anyJSON]())
	registry.RegisterTypeAlias(reflect.TypeFor[model.Duration](), reflect.TypeFor[duration]())
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: "Countersign", Version: daemon.Version(),
			Description: "Durable, exactly-once human approval for the tool calls of chat models. Everything that goes wrong is a problem document; GET its type for an explanation."},
		Components: &huma.Components{Schemas: registry, SecuritySchemes: map[string]*huma.SecurityScheme{
			"key":    {Type: "http", Scheme: "bearer", Description: "An API key, or a person's token where a route takes one."},
			"cookie": {Type: "apiKey", In: "cookie", Name: TokenCookie, Description: "A person's token; over TLS the name begins with __Host-."},
		}},
		Security: []map[string][]string{{"key": {}}},
	}
	problem := registry.Schema(reflect.TypeFor[Problem](), true, "Problem")
	for _, rt := range routes {
		doc.AddOperation(operation(registry, rt, problem))
	}
	out, err := json.Marshal(doc)
	if err != nil {
		panic(err) // the types are ours
	}
	return out
}

func operation(registry huma.Registry, rt route, problem *huma.Schema) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: operationID(rt), Summary: rt.summary,
		Parameters: parameters(rt), Responses: map[string]*huma.Response{
			"default": {Description: "A problem document.", Content: content("application/problem+json", problem)},
		},
	}
	if len(rt.roles) > 0 {
		op.Description = "Needs a key with the role " + words(rt.roles) + "."
	}
	if rt.tokens != closed {
		op.Description = strings.TrimSpace(op.Description + " Takes a person's token, for its topics.")
		op.Security = []map[string][]string{{"key": {}}, {"cookie": {}}}
	}
	if rt.body != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: content("application/json", registry.Schema(rt.body, true, "Request"))}
	}
	answer := &huma.Response{Description: rt.summary}
	switch {
	case rt.method == http.MethodDelete:
		rt.status = http.StatusNoContent
	case rt.answer == reflect.TypeFor[nothing]():
		answer.Content = content("text/event-stream", &huma.Schema{Type: huma.TypeString})
	default:
		answer.Content = content("application/json", registry.Schema(rt.answer, true, "Answer"))
	}
	op.Responses[strconv.Itoa(rt.status)] = answer
	if rt.status == http.StatusCreated {
		op.Responses["200"] = &huma.Response{Description: "It was there before, and is shown as it is now.", Content: answer.Content}
	}
	return op
}

func content(kind string, schema *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{kind: {Schema: schema}}
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

func parameters(rt route) []*huma.Param {
	var out []*huma.Param
	for _, found := range placeholder.FindAllStringSubmatch(rt.path, -1) {
		out = append(out, &huma.Param{Name: found[1], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Percent-encoded."})
	}
	for _, name := range rt.query {
		p := &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeString}, Description: queryDocs[name]}
		switch name {
		case "limit", "minVersion", "after":
			p.Schema = &huma.Schema{Type: huma.TypeInteger}
		case "id":
			p.Schema = &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
		}
		out = append(out, p)
	}
	return out
}

var queryDocs = map[string]string{
	"limit":      "How many items a page may have; 50 by default, 200 at most.",
	"cursor":     "The nextCursor of the page before.",
	"wait":       `Hold the answer back until something changes, for this long at most, such as "30s"; 60s at most. Renews the hold of a turn.`,
	"after":      "With wait: answer at once when the topic has a version above this one.",
	"minVersion": "Never answer with less than this version of the topic; 409 when it does not come within 5 s.",
	"id":         "Only these topics; may be repeated.",
}

// operationID is made of the method and the path, so that it never changes.
func operationID(rt route) string {
	path := strings.NewReplacer("/v1/", "", "{", "", "}", "", "/", "-").Replace(rt.path)
	return strings.ToLower(rt.method) + "-" + path
}
