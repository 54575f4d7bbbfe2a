package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/approval"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/strictjson"
	"github.com/countersign/countersign/pkg/toolschema"
	"github.com/countersign/countersign/services/api/view"
)

// toolRequest defines a tool.
type toolRequest struct {
	Description  string         `json:"description,omitzero"`
	InputSchema  strictjson.Raw `json:"inputSchema,omitzero" doc:"A JSON Schema; 2020-12 unless it says otherwise. Absent: anything fits."`
	Effect       string         `json:"effect,omitzero" enum:"read,idempotent,keyed,unsafe" doc:"What running it twice would do; unsafe by default."`
	Timeout      string         `json:"timeout,omitzero" doc:"30s by default, 10m at most."`
	Executor     string         `json:"executor,omitzero" enum:"worker,caller" doc:"worker for a tool with http, caller for one without."`
	KeyRetention string         `json:"keyRetention,omitzero" doc:"How long the tool remembers an idempotency key; 24h by default, for effect keyed."`
	MaxAttempts  *int           `json:"maxAttempts,omitzero" doc:"5 by default, 20 at most."`
	HTTP         *httpRequest   `json:"http,omitzero"`
}

// httpRequest says how a tool is called over HTTP.
type httpRequest struct {
	Method  string            `json:"method,omitzero" doc:"POST by default."`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitzero" doc:"Their values are secrets and never shown again."`
}

const (
	maxDescription  = 20_000 // bytes
	maxAttempts     = 20
	maxKeyRetention = 366 * 24 * time.Hour
)

// read makes the tool, or says everything that is wrong with it.
func (in toolRequest) read(tenant model.TenantID, name string) (model.Tool, error) {
	c := &checks{}
	c.id("", name)
	c.prose("/description", in.Description, maxDescription)
	d := model.ToolDefinition{
		Name: name, Description: in.Description, InputSchema: json.RawMessage(in.InputSchema),
		Effect: model.Effect(c.word("/effect", in.Effect, string(model.EffectUnsafe), string(model.EffectRead),
			string(model.EffectIdempotent), string(model.EffectKeyed))),
		Timeout:     model.Duration(c.duration("/timeout", in.Timeout, model.DefaultToolTimeout, model.MaxToolTimeout)),
		MaxAttempts: model.DefaultMaxAttempts,
	}
	retention := c.duration("/keyRetention", in.KeyRetention, model.DefaultKeyRetention, maxKeyRetention)
	if d.Effect == model.EffectKeyed {
		d.KeyRetention = model.Duration(retention)
	} else if in.KeyRetention != "" {
		c.add("/keyRetention", "belongs to a tool of effect keyed")
	}
	if in.MaxAttempts != nil {
		d.MaxAttempts = *in.MaxAttempts
		if d.MaxAttempts < 1 || d.MaxAttempts > maxAttempts {
			c.add("/maxAttempts", fmt.Sprintf("must be between 1 and %d", maxAttempts))
		}
	}
	if _, err := toolschema.Compile(in.InputSchema); err != nil {
		c.add("/inputSchema", err.Error())
	}
	t := model.Tool{Tenant: tenant, Definition: d}
	in.target(c, &t)
	return t, c.err()
}

// target says who runs the tool, and where it is called.
func (in toolRequest) target(c *checks, t *model.Tool) {
	d := &t.Definition
	if in.HTTP == nil {
		d.Executor = model.Executor(c.word("/executor", in.Executor, string(model.ExecutorCaller), string(model.ExecutorWorker)))
		if d.Executor == model.ExecutorWorker {
			c.add("/http", "is missing: a worker has to know where to call the tool")
		}
		return
	}
	d.Executor = model.Executor(c.word("/executor", in.Executor, string(model.ExecutorWorker), string(model.ExecutorCaller)))
	if d.Executor == model.ExecutorCaller {
		c.add("/http", "is not used when the caller runs the tool; leave one of the two out")
	}
	method := strings.ToUpper(in.HTTP.Method)
	if method == "" {
		method = http.MethodPost
	}
	c.word("/http/method", method, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet)
	c.target("/http/url", in.HTTP.URL)
	c.headers("/http/headers", in.HTTP.Headers)
	d.HTTP = &model.HTTPTarget{Method: method, URL: in.HTTP.URL, HeaderNames: slices.Sorted(maps.Keys(in.HTTP.Headers))}
	t.Secrets.Headers = in.HTTP.Headers
}

func (a *API) putTool(r *request, in toolRequest) (answer, error) {
	name := r.PathValue("name")
	tool, err := in.read(r.tenant(), name)
	if err != nil {
		return answer{}, err
	}
	if err := r.notImported(name); err != nil {
		return answer{}, err
	}
	isNew, err := a.Store.PutTool(r.Context(), tool, r.actor(), r.via)
	if err != nil {
		return answer{}, err
	}
	row, err := a.Store.Tool(r.Context(), r.tenant(), name)
	if err != nil {
		return answer{}, err
	}
	return created(isNew, view.NewTool(row)), nil
}

// notImported refuses names that belong to an MCP server's tools.
func (r *request) notImported(name string) error {
	server, _, imported := strings.Cut(name, model.ServerSeparator)
	if !imported {
		return nil
	}
	_, err := r.api.Store.MCPServer(r.Context(), r.tenant(), server)
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return approval.NewInvalid("", "the name within the path is one of an MCP server's tools, which are imported from it")
}

func (a *API) getTool(r *request) (answer, error) {
	row, err := a.Store.Tool(r.Context(), r.tenant(), r.PathValue("name"))
	if err != nil {
		return answer{}, err
	}
	return ok(view.NewTool(row)), nil
}

func (a *API) listTools(r *request) (answer, error) {
	limit, after, err := r.paging()
	if err != nil {
		return answer{}, err
	}
	tools, err := a.Store.Tools(r.Context(), r.tenant(), after, limit+1)
	if err != nil {
		return answer{}, err
	}
	return ok(page(tools, limit, view.NewTool, func(t store.ToolRow) string { return cursorOf(t.Definition.Name) })), nil
}

func (a *API) deleteTool(r *request) (answer, error) {
	name := r.PathValue("name")
	row, err := a.Store.Tool(r.Context(), r.tenant(), name)
	if err != nil {
		return answer{}, err
	}
	if row.Definition.Server != "" {
		return answer{}, approval.NewInvalid("", "the tool is imported from an MCP server; delete the server, or deny the tool by a policy")
	}
	return answer{status: http.StatusNoContent}, a.Store.DeleteTool(r.Context(), r.tenant(), name, r.actor(), r.via)
}
